"""The figures of docs/papers as tests read them: the lines of an experiment."""

from __future__ import annotations

from benchmarks.papers import pages
from benchmarks.papers.__main__ import module_of
from benchmarks.papers.pages import code_of, runs_of


def lines_of(name: str) -> list[str]:
    """The lines of an experiment's figures."""
    found = pages.figures(name, pages.text())
    assert found
    return found.splitlines()


def after(lines: list[str], title: str) -> list[str]:
    """The lines from the first one on that has this in it."""
    return lines[next(i for i, line in enumerate(lines) if title in line) :]


def older(name: str) -> bool:
    """Whether an experiment's code has changed since the run that the pages show."""
    return runs_of(pages.INDEX.read_text())[name].split()[-1] != code_of(module_of(name))
