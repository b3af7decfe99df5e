"""Commands that pages name in a sentence: each form has run in what a reader installs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.docs.reader import HOW_TO, NEEDS, NOT_TRIED, Reader
from tests.support.docs.steps import blocks, run
from tests.support.wheel import ROOT

#: Steps with the forms that no page runs, and a page whose example they take.
STEPS, PYTHON = Path(__file__).with_name("commands.md"), ROOT / "docs" / "reference" / "python.md"
#: Pages of places that nobody had here.
SHOWN = [HOW_TO / f"{name}.md" for name in NOT_TRIED]
#: Pages that are run: all others that have steps, by their tests. One that wants a variable is
#: not run everywhere, so its forms must stand on another, too.
RUN = [*HOW_TO.rglob("*.md"), *ROOT.glob("examples/*.md"), STEPS]
WHOLE = [HOW_TO / f"{name}.md" for name, (section, _) in NEEDS.items() if not section]
RUN = [page for page in RUN if page not in (*SHOWN, *WHOLE)]
_FENCE = re.compile(r"^ *```.*?^ *```", re.M | re.S)
#: Options of another program, such as those of `--submit` for spark-submit.
_QUOTED = re.compile(r'"[^"]*"')
_PROGRAMS = "evenkeel|airflow|pip"
_INLINE = re.compile(rf"`((?:\.venv/bin/)?(?:{_PROGRAMS}|make) [^`]+)`")
_COMMAND = re.compile(rf"(?:^|[ /(])({_PROGRAMS}) (.+)")
#: A form of a command: its program and name, and an option; "": none.
Form = tuple[str, str]
#: A word for any job.
ANY_JOB = ("evenkeel job NAME", "")
#: CONTRIBUTING names it to say why Evenkeel starts a server of its own.
NOT_USED = ("airflow standalone", "")
#: Targets of make that no workflow runs, and why.
BY_HAND = {
    "bench": "hours; tests/benchmarks/test_small_runs.py runs those of Spark on few rows",
    "docs-serve": "`make docs` builds the same site",
    "lint": "a part of `make test`",
    "papers": "hours: it makes the figures of docs/papers",
    "papers-quick": "an hour: the tests of benchmarks/papers make a part",
    "reference": "test_reference holds the pages against the code",
    "run": "test_newcomer runs it",
    "setup": "a part of each other target",
    "shots": "the tests of evenkeel_ui open the same pages",
    "up": "the browser tests of evenkeel_ui start it",
}


def forms(text: str) -> Iterator[Form]:
    """Yield the forms of commands, a command a line."""
    for line in text.replace("\\\n", " ").splitlines():
        if (found := _COMMAND.search(line)) is not None:
            program, words = found[1], _QUOTED.sub("", found[2]).split()
            two = (program, words[0]) in (("evenkeel", "job"), ("airflow", "dags"))
            name = " ".join([program, *words[: 1 + two]])
            yield name, ""
            yield from ((name, word.partition("=")[0]) for word in words if word.startswith("--"))


def sentences() -> Iterator[tuple[str, str]]:
    """Yield the commands in sentences of the pages that people write, and the page of each."""
    folders = ("*.md", "examples/*.md", "clients/*.md", "docs/**/*.md")
    pages = [page for folder in folders for page in ROOT.glob(folder)]
    for page in pages:
        if "reference" not in page.parts and page.name != "CHANGELOG.md":
            for command in _INLINE.findall(_FENCE.sub("", page.read_text())):
                yield command, str(page.relative_to(ROOT))


def forms_of(pages: Iterable[Path]) -> set[Form]:
    """Return the forms of commands in the steps of pages, but for sections that need more."""
    sections = {HOW_TO / f"{name}.md": section for name, (section, _) in NEEDS.items()}
    found = [block for page in pages for block in blocks(page, sections.get(page))]
    return {form for language, step in found if language == "sh" for form in forms(step)}


def test_each_form_in_a_sentence_has_run() -> None:
    ran = forms_of(RUN)
    found: dict[Form, set[str]] = defaultdict(set)
    for command, page in sentences():
        for form in forms(command):
            found[form].add(page)
    assert len(found) > 60 and {form[0].split()[0] for form in found} == {*_PROGRAMS.split("|")}
    left = {form: where for form, where in found.items() if form not in ran}
    assert left.keys() == {ANY_JOB, NOT_USED}, left


def test_each_form_on_a_page_that_nobody_could_run_has_run_on_another() -> None:
    shown = forms_of([*SHOWN, *WHOLE])
    assert {("evenkeel doctor", ""), ("evenkeel job bootstrap", "--submit")} < shown
    assert shown - forms_of(RUN) == set()


def test_steps_that_want_a_variable_do_not_count() -> None:
    (section, _) = NEEDS["read"]
    page = HOW_TO / "read.md"
    trino = [step for step in blocks(page) if step not in blocks(page, section)]
    assert any("TRINO_HOME" in text for _, text in trino)
    assert forms_of([page]) == {
        form for language, t in blocks(page, section) if language == "sh" for form in forms(t)
    }
    assert WHOLE and not {*WHOLE} & {*RUN}


def test_a_form_is_a_command_with_one_of_its_options() -> None:
    text = "evenkeel job adopt --spec x \\\n  --release\n.venv/bin/evenkeel check a.yaml\nnone here"
    adopt, check = "evenkeel job adopt", "evenkeel check"
    found = [(adopt, ""), (adopt, "--spec"), (adopt, "--release"), (check, "")]
    assert [*forms(text)] == found
    assert [*forms('evenkeel job watch --submit "--master yarn --conf a=b"')] == [
        ("evenkeel job watch", ""),
        ("evenkeel job watch", "--submit"),
    ]
    assert [*forms("pip show x\nairflow dags list --columns a")] == [
        ("pip show", ""),
        ("airflow dags list", ""),
        ("airflow dags list", "--columns"),
    ]


def test_a_workflow_makes_each_target_in_a_sentence_or_a_reason_says_why_not() -> None:
    workflows = "".join(file.read_text() for file in ROOT.glob(".github/workflows/*.yml"))
    made = {*re.findall(r"\bmake ([a-z-]+)", workflows)}
    told = {command.split()[1] for command, _ in sentences() if command.startswith("make ")}
    assert told - made == BY_HAND.keys()


@pytest.mark.slow
@pytest.mark.airflow
@pytest.mark.timeout(1800)
def test_the_forms_that_no_page_runs(reader: Reader, tmp_path: Path) -> None:
    (example,) = (text for language, text in blocks(PYTHON) if language == "python")
    (tmp_path / "epoch.py").write_text(example)
    run(STEPS, tmp_path, reader.shell)
