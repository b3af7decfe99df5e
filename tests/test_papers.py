"""docs/PAPERS.md has the figures and the picture of every experiment that there is."""

import re

import pytest

from benchmarks.papers.__main__ import QUICK, filled
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
    assert [file.read_text() for file in files] == before and len(files) == len(QUICK)
