"""The steps of the how-to pages, run as they stand on real Spark, Delta and Airflow."""

import os

import pytest

from evenkeel.local_env import environment
from tests.support.docs.steps import blocks, expected, file_of, missing, run
from tests.support.wheel import ROOT

HOW_TO = ROOT / "docs" / "how-to"
#: Pages whose steps are run, each in an empty folder of its own.
RUN = ("first-table", "channels", "install", "late-rows", "recover", "schedule", "write")
#: The page whose steps need no Spark.
QUICK = "choose"


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", RUN)
def test_a_page_does_what_it_says(name, tmp_path):
    do(name, tmp_path)


@pytest.mark.timeout(300)
def test_the_quick_page_does_what_it_says(tmp_path):
    outputs = do(QUICK, tmp_path)
    assert len(outputs) == 5


def do(name, folder):
    """Do the steps of a page in an empty folder, with the settings of this checkout's Spark."""
    own = ("EVENKEEL_TABLES", "PYTHONPATH")
    mine = {k: v for k, v in os.environ.items() if k not in own and not k.startswith("AIRFLOW")}
    return run(HOW_TO / f"{name}.md", folder, {**mine, **environment(small=True)})


def test_a_page_that_says_something_wrong_fails(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\necho one '  ' two\n```\n```text\none ... two\n```\n")
    env = {"PATH": os.environ["PATH"]}
    assert run(page, tmp_path, env) == ["\none    two\n"]
    for wrong in ("one three", "two ... one"):
        page.write_text(f"```sh\necho one '  ' two\n```\n```text\n{wrong}\n```\n")
        with pytest.raises(AssertionError, match=wrong):
            run(page, tmp_path, env)
    page.write_text("```sh\nfalse\necho one\n```\n")
    with pytest.raises(AssertionError):
        run(page, tmp_path, env)


def test_the_pages_that_are_run_have_steps_and_tell_what_they_print():
    for name in (*RUN, QUICK):
        page = HOW_TO / f"{name}.md"
        assert sum(language == "sh" for language, _ in blocks(page)) > 2, name
        assert any(file_of(text) for _, text in blocks(page)), name
    assert sum(len(lines) for name in RUN for lines in expected(HOW_TO / f"{name}.md")) > 6
    assert missing("a ... c", "a b") and not missing("a ... c", "a b c")
