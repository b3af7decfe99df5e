"""docs/PAPERS.md has the figures and the picture of every experiment that there is."""

import re

import pytest

from benchmarks.papers.__main__ import QUICK, filled, timed
from benchmarks.papers.pictures import PAPERS, main


@pytest.mark.parametrize("name", QUICK)
def test_every_experiment_has_its_figures(name):
    page = PAPERS.read_text()
    found = re.search(rf"<!-- {name} -->\n```text\n(.+?)```\n<!-- end -->", page, re.DOTALL)
    assert found and found[1].count("\n") > 2
    assert "new figures\n```\n<!-- end -->" in filled(page, name, "new figures")


def test_pictures_are_of_the_figures_that_stand_there():
    shown = re.findall(r"\(img/(papers-\w+\.svg)\)", PAPERS.read_text())
    files = [PAPERS.parent / "img" / name for name in shown]
    before = [file.read_text() for file in files]
    main()
    assert [file.read_text() for file in files] == before
    assert len(files) == len(set(QUICK) - {"lossy"})


def test_the_page_says_how_long_each_run_took():
    empty = "<!-- runs -->\n```text\nhead\n```\n<!-- end -->\nrest\n"
    page = timed(timed(empty, "dicer", "  7  2  2026-11-20"), "gedik", "  1,000  2  2026-11-21")
    lines = page.splitlines()
    assert [line.split() for line in lines[3:5]] == [
        ["gedik", "1,000", "2", "2026-11-21"],
        ["dicer", "7", "2", "2026-11-20"],
    ]
    assert lines[-1] == "rest" and len(lines) == 8
    for name in QUICK:
        page = timed(page, name, "  600  2  2026-11-22")
    assert page.count("\n") == empty.count("\n") + len(QUICK) + 1
    assert f"all {600 * len(QUICK):,}" in " ".join(page.split())
    assert timed(page, "dicer", "  600  2  2026-11-22") == page
