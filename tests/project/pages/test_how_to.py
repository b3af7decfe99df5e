"""The steps of the how-to pages, run as they stand on real Spark, Delta and Airflow."""

import os
import shutil
import socket
import time
from pathlib import Path

import pytest

from evenkeel.local_env import environment
from tests.support.docs.steps import blocks, expected, file_of, missing, not_run, run
from tests.support.wheel import ROOT, Venv, build_wheel

HOW_TO = ROOT / "docs" / "how-to"
#: Pages whose steps are run, each in an empty folder of its own.
RUN = (
    "adopt",
    "choose",
    "cluster",
    "first-table",
    "channels",
    "late-rows",
    "schedule",
)
RUN += ("read", "stream", "write", "operate/alerts", "operate/approve", "operate/evolve")
RUN += ("operate/forget", "operate/leave", "operate/recover", "operate/upgrade")
#: Pages that are run with what the first of them has installed, and nothing of this checkout.
INSTALLED = ("install", "first-table-s3")
#: Page -> how its fences begin that no test runs. One wants a container engine; the other watches
#: state that another program keeps, which its page does not have.
NOT_RUN = {"cluster": ["docker compose exec "], "stream": ["evenkeel job watch "]}
#: Page -> a section, and the variable without which it is left out: its program is not on PyPI.
NEEDS = {"read": ("Trino", "TRINO_HOME")}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", RUN)
def test_a_page_does_what_it_says(name, tmp_path):
    own = ("EVENKEEL_TABLES", "PYTHONPATH")
    mine = {k: v for k, v in os.environ.items() if k not in own and not k.startswith("AIRFLOW")}
    mine["PORT"] = free_port()
    section, variable = NEEDS.get(name, (None, None))
    without = None if variable in os.environ else section
    run(HOW_TO / f"{name}.md", tmp_path, {**mine, **environment(small=True)}, without)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """What the page of the installation makes, in a folder that has the wheel alone."""
    made = tmp_path_factory.mktemp("made")
    folder = made / "reader"
    folder.mkdir()
    shutil.copy(build_wheel(made), folder)
    run(HOW_TO / "install.md", folder, Venv(made / "base").create().environment())
    return Venv(folder / "venv")


@pytest.mark.slow
@pytest.mark.airflow
@pytest.mark.timeout(2400)
def test_the_page_of_the_installation_brings_all_that_it_needs(installed):
    assert (installed.bin / "evenkeel").is_file()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(2400)
def test_the_page_of_a_store_runs_as_printed_where_it_was_installed(installed, tmp_path):
    """Spark's settings, endpoint and keys are those of the page: the test brings a port alone."""
    # One after the other: where versions clash, pip takes the stranger of PyPI for `evenkeel`.
    for package in ("evenkeel[s3]", "moto[server]"):
        installed.run("pip", "install", "-q", package, check=True)
    own = {k: v for k, v in installed.environment().items() if not k.startswith("AWS_")}
    run(HOW_TO / "first-table-s3.md", tmp_path, {**own, "PORT": free_port()})


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def alive(process):
    """Whether a process runs; not if it only waits for its new parent to bury it."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


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
    # What a page leaves in the background is gone, though it fails.
    page.write_text("```sh\nsleep 600 > log 2>&1 & echo $! > pid\nfalse\n```\n")
    with pytest.raises(AssertionError):
        run(page, tmp_path, env)
    left = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 30
    while alive(left):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_each_fence_of_a_page_is_run_or_named_here(tmp_path):
    pages = {str(p.relative_to(HOW_TO).with_suffix("")): p for p in HOW_TO.rglob("*.md")}
    assert set(pages) == {*RUN, *INSTALLED}
    left = {name: found for name, page in pages.items() if (found := not_run(page))}
    assert left.keys() == NOT_RUN.keys()
    for name, begins in NOT_RUN.items():
        for line, begin in zip(left[name], begins, strict=True):
            assert line.startswith(begin), name
    page = tmp_path / "page.md"
    page.write_text(
        "```text\nearly\n```\n- one\n\n  ```sh\n  true\n  ```\n\n  ```\n  bare\n  ```\n"
    )
    assert not_run(page) == ["early", "bare"]
    page.write_text(
        "```python\n# a.py\n1\n```\n```python\n2\n```\n```sh\n3\n```\n```text\n4\n```\n"
    )
    assert not_run(page) == ["2"]


def test_a_section_that_needs_more_is_left_out_alone(tmp_path):
    for name, (section, variable) in NEEDS.items():
        page = HOW_TO / f"{name}.md"
        every, rest = blocks(page), blocks(page, section)
        left_out = [text for block in every if block not in rest for text in block[1:]]
        assert 0 < len(left_out) == len(every) - len(rest)
        assert any(variable in text for text in left_out)
    page = tmp_path / "page.md"
    page.write_text("## A\n```sh\nfalse\n```\n## B\n```sh\necho b\n```\n```text\nb\n```\n")
    assert run(page, tmp_path, {"PATH": os.environ["PATH"]}, "A") == ["\nb\n"]


def test_the_pages_that_are_run_have_steps_and_tell_what_they_print():
    for name in (*RUN, *INSTALLED):
        page = HOW_TO / f"{name}.md"
        assert sum(language == "sh" for language, _ in blocks(page)) > 2, name
        assert any(file_of(text) for _, text in blocks(page)), name
    assert (
        sum(len(lines) for name in (*RUN, *INSTALLED) for lines in expected(HOW_TO / f"{name}.md"))
        > 6
    )
    assert missing("a ... c", "a b") and not missing("a ... c", "a b c")
