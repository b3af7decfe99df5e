"""The steps of the how-to pages, run as they stand on real Spark, Delta and Airflow."""

import os

import pytest

from evenkeel.local_env import environment
from tests.support.docs.steps import blocks, expected, file_of, missing, run
from tests.support.wheel import ROOT

HOW_TO = ROOT / "docs" / "how-to"
#: Pages whose steps are run, each in an empty folder of its own.
RUN = ("choose", "first-table", "channels", "install", "late-rows", "recover", "schedule", "write")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", RUN)
def test_a_page_does_what_it_says(name, tmp_path):
    own = ("EVENKEEL_TABLES", "PYTHONPATH")
    mine = {k: v for k, v in os.environ.items() if k not in own and not k.startswith("AIRFLOW")}
    run(HOW_TO / f"{name}.md", tmp_path, {**mine, **environment(small=True)})


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
    for name in RUN:
        page = HOW_TO / f"{name}.md"
        assert sum(language == "sh" for language, _ in blocks(page)) > 2, name
        assert any(file_of(text) for _, text in blocks(page)), name
    assert sum(len(lines) for name in RUN for lines in expected(HOW_TO / f"{name}.md")) > 6
    assert missing("a ... c", "a b") and not missing("a ... c", "a b c")
