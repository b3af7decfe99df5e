"""Forms of `evenkeel` that pages name in a sentence: each has run in what a reader installs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.docs.reader import HOW_TO, Reader
from tests.support.docs.steps import run
from tests.support.wheel import ROOT

#: Steps with the forms that no page runs.
STEPS = Path(__file__).with_name("commands.md")
#: Pages that are run: all that have steps, by their tests.
RUN = [*HOW_TO.rglob("*.md"), *ROOT.glob("examples/*.md"), STEPS]
_FENCE = re.compile(r"^ *```.*?^ *```", re.M | re.S)
_STEPS = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)
_INLINE = re.compile(r"`((?:\.venv/bin/)?evenkeel [^`]+)`")
_COMMAND = re.compile(r"(?:^|[ /(])evenkeel (.+)")
#: A word for any job.
ANY_JOB = "job NAME"
#: A form of the command: its name (a job's has two words), and an option; "": none.
Form = tuple[str, str]


def forms(text: str) -> Iterator[Form]:
    """Yield the forms of `evenkeel` in commands, a line each."""
    for line in text.replace("\\\n", " ").splitlines():
        if (found := _COMMAND.search(line)) is not None:
            words = found[1].split()
            name = " ".join(words[:2]) if words[0] == "job" else words[0]
            yield name, ""
            yield from ((name, word.partition("=")[0]) for word in words if word.startswith("--"))


def told() -> dict[Form, set[str]]:
    """Return the forms in sentences of the pages that people write, and where they are."""
    found: dict[Form, set[str]] = defaultdict(set)
    pages = [*ROOT.glob("*.md"), *ROOT.glob("examples/*.md"), *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        if "reference" in page.parts or page.name == "CHANGELOG.md":
            continue
        for command in _INLINE.findall(_FENCE.sub("", page.read_text())):
            for form in forms(command):
                found[form].add(str(page.relative_to(ROOT)))
    return found


def test_each_form_in_a_sentence_has_run() -> None:
    steps = [step for page in RUN for step in _STEPS.findall(page.read_text())]
    ran = {form for step in steps for form in forms(step)}
    found = told()
    assert len(found) > 50 and (ANY_JOB, "") in found
    left = {form: where for form, where in found.items() if form not in ran}
    assert {form: where for form, where in left.items() if form[0] != ANY_JOB} == {}


def test_a_form_is_a_command_with_one_of_its_options() -> None:
    text = "evenkeel job adopt --spec x \\\n  --release\n.venv/bin/evenkeel check a.yaml\nnone here"
    adopt = "job adopt"
    assert [*forms(text)] == [(adopt, ""), (adopt, "--spec"), (adopt, "--release"), ("check", "")]


@pytest.mark.slow
@pytest.mark.airflow
@pytest.mark.timeout(1800)
def test_the_forms_that_no_page_runs(reader: Reader, tmp_path: Path) -> None:
    run(STEPS, tmp_path, reader.shell)
