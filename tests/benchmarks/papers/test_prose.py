"""The figures in the sentences of docs/papers stand in the tables of the same page."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.papers import pages
from tests.support.docs.prose import paragraphs

#: Figures in sentences that no table of the page has, and why: a line each, "page: figure: why".
LISTED = Path(__file__).with_name("prose_figures.txt")
NUMBER = re.compile(r"(?<![\w.^/-])\d[\d,]*(?:\.\d+)?(?:e\d+)?%?")


def shown(page: str) -> list[float]:
    """Every number of a page's tables."""
    blocks = "\n".join(re.findall(r"```text\n(.*?)```", page, re.S))
    found = re.findall(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?", blocks)
    return [float(number.replace(",", "")) for number in found]


def told(page: str) -> Iterator[str]:
    """Measured figures of a page's sentences: those with decimals, an exponent or a percent."""
    for paragraph in paragraphs(re.sub(r"\]\([^)]*\)", "]", page)):
        plain = re.sub(
            r"`[^`]*`|Figs?\. [\d., and]+|\b\d+(?:\.\d+)+\b(?=[ ,)]*(?:\)|\.$))", "", paragraph
        )
        for found in NUMBER.findall(plain):
            if re.search(r"[.e%]", found):
                yield found


def stands(figure: str, numbers: list[float]) -> bool:
    """Whether a number of the tables rounds to this figure."""
    bare = figure.rstrip("%").replace(",", "")
    value, digits = float(bare), bare.partition("e")[0]
    places = len(digits.partition(".")[2])
    scale = 10.0 ** int(bare.partition("e")[2] or 0)
    return any(abs(each - value) <= (0.5 * 10.0**-places + 1e-9) * scale for each in numbers)


def listed() -> set[tuple[str, str]]:
    lines = [line for line in LISTED.read_text().splitlines() if line]
    return {(line.split(": ")[0], line.split(": ")[1]) for line in lines}


@pytest.mark.parametrize("page", pages.pages()[1:], ids=lambda page: page.stem)
def test_figures_in_sentences_come_from_the_tables(page):
    """A stale figure is red: mend the sentence, or list it with the reason."""
    text = page.read_text()
    numbers = shown(text)
    missing = {figure for figure in told(text) if not stands(figure, numbers)}
    allowed = {figure for name, figure in listed() if name == page.stem}
    assert missing - allowed == set(), "not in the page's tables"
    assert allowed - missing == set(), f"no longer needed in {LISTED.name}"


def test_a_stale_figure_is_seen():
    page = "```text\nrow  12.34%  5.98e+09  1,286.2%\n```\nIt is {} beside `9.9%` of Fig. 7.\n"
    numbers = shown(page)
    for right in ("12.3%", "12%", "12.34", "6.0e9", "1,286%"):
        assert [stands(x, numbers) for x in told(page.format(right))] == [True]
    for stale in ("12.5%", "13%", "6.1e9"):
        assert [stands(x, numbers) for x in told(page.format(stale))] == [False]
    assert list(told("Section 4 has 100 channels.")) == []


def test_benchmarks_and_papers_show_one_figure_under_one_label():
    """A result that the benchmarks take from an experiment of the papers stands in its block."""
    page = "".join(p.read_text() for p in sorted((pages.DOCS / "benchmarks").glob("*.md")))
    name, seen = None, []
    for row in re.findall(r"^\| (.*) \|$", page, re.M):
        cells = row.split(" | ")
        if found := re.search(r"`make (\w+) ARGS=(\w+)", cells[-1]):
            name = found[2] if found[1] == "papers" else None
        if name is None or len(cells) != 5 or not (cells[-1] == "same" or found):
            name = name if cells[-1] == "same" else None
            continue
        numbers = shown(f"```text\n{pages.figures(name, pages.text())}```")
        figures = [x for x in told(cells[2]) if x != "1.0088"]  # 1 + 88 copies / 10,000 keys
        assert [x for x in figures if not stands(x, numbers)] == [], row
        seen += figures
    assert len(seen) > 5
