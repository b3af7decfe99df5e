"""The pages of docs/papers have the figures and the picture of every experiment."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.papers import __main__ as papers
from benchmarks.papers import data, pages
from benchmarks.papers.__main__ import QUICK, to_go
from benchmarks.papers.flexd import flexd_data
from benchmarks.papers.pages import DOCS, code_of, filled, timed
from benchmarks.papers.pictures import main
from tests.support.docs.papers import lines_of, older

WITHOUT_PICTURE = {
    "lossy",
    "gedik_steps",
    "gedik_ranges",
    "gauss_zipf",
    "guo_zhou_queues",
    "flexd_data",
    "rivetti_many",
    "reshape_more",
    "watch_cost",
    "real_data",
}

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", QUICK)
def test_every_experiment_has_its_figures(name):
    assert len(lines_of(name)) > 2
    page = pages.page_of(name).read_text()
    assert "new figures\n```\n<!-- end -->" in filled(page, name, "new figures")


@pytest.mark.parametrize("name", QUICK)
def test_a_block_says_whether_it_is_older_than_its_code(name):
    """`python -m benchmarks.papers --mark` writes the notes."""
    assert (pages.OLDER.format(name=name) in pages.page_of(name).read_text()) == older(name)


def test_the_code_of_an_experiment_is_what_decides_its_figures(tmp_path, monkeypatch):
    """Its own modules and the published strategies; a note comes and goes with them."""
    root = tmp_path / "benchmarks" / "papers"
    published = tmp_path / "partitioning" / "strategies" / "published"
    for folder in (root, published):
        folder.mkdir(parents=True)
    (root / "one.py").write_text("from benchmarks.papers.two import run\nSTRATEGIES = run\n")
    (root / "two.py").write_text("run = 1\n")
    (root / "three.py").write_text("run = 1\n")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    before = [code_of("benchmarks.papers.one")]
    for file in (root / "two.py", published / "dkg.py", root / "one.py"):
        file.write_text("STRATEGIES = 2\n")
        before.append(code_of("benchmarks.papers.one"))
    assert len(set(before)) == 4
    (root / "three.py").write_text("run = 3\n")
    assert code_of("benchmarks.papers.one") == before[-1]
    page = "text\n\n<!-- one -->\n"
    older = pages.marked(page, "one", older=True)
    assert "changed since" in older and pages.marked(older, "one", older=True) == older
    assert pages.marked(older, "one", older=False) == page


def test_pictures_are_of_the_figures_that_stand_there():
    shown = re.findall(r"\(\.\./img/(papers/\w+\.svg)\)", pages.text())
    files = [DOCS / "img" / name for name in shown]
    before = [file.read_text() for file in files]
    main()
    assert [file.read_text() for file in files] == before
    assert len(files) == len(set(QUICK) - WITHOUT_PICTURE)


def test_the_page_says_how_long_each_run_took():
    empty = "<!-- runs -->\n```text\nhead\n```\n<!-- end -->\nrest\n"
    page = timed(empty, "dicer", "  7  2  2026-11-20", QUICK)
    page = timed(page, "gedik", "  1,000  2  2026-11-21", QUICK)
    lines = page.splitlines()
    assert [line.split() for line in lines[3:5]] == [
        ["gedik", "1,000", "2", "2026-11-21"],
        ["dicer", "7", "2", "2026-11-20"],
    ]
    assert lines[-1] == "rest" and len(lines) == 8
    for name in QUICK:
        page = timed(page, name, "  600  2  2026-11-22", QUICK)
    assert page.count("\n") == empty.count("\n") + len(QUICK) + 1
    assert f"all {600 * len(QUICK):,}" in " ".join(page.split())
    assert timed(page, "dicer", "  600  2  2026-11-22", QUICK) == page


def test_the_time_to_go_is_that_of_the_last_runs():
    page = "<!-- runs -->\n```text\nhead\n```\n<!-- end -->\n"
    page = timed(page, "dicer", "  60  2  2026-11-20", QUICK)
    page = timed(page, "gedik", "  1,140  2  2026-11-21", QUICK)
    assert to_go(page, ["gedik", "dicer"]) == "about 20 minutes to go"
    assert to_go(page, ["dicer", "flexd"]) == "about 1 minutes to go and what flexd take"


def test_without_its_data_an_experiment_leaves_the_page_alone(tmp_path, monkeypatch, capsys):
    page = tmp_path / "PAPERS.md"
    before = "<!-- real_data -->\n```text\nold\n```\n<!-- end -->\n"
    page.write_text(before)
    monkeypatch.setattr(papers, "INDEX", page)
    monkeypatch.setattr(papers, "put", lambda *given: page.write_text(str(given)))
    monkeypatch.setattr(papers, "draw_all", lambda: None)
    monkeypatch.setenv("EVENKEEL_DATA", str(tmp_path))
    assert papers.main(["real_data"]) == 0
    assert "lacked data" in capsys.readouterr().out and page.read_text() == before


@pytest.mark.slow
def test_papers_quick_ends_well_without_any_data(tmp_path):
    """Each experiment runs; those that lack data say so, and no page changes."""
    before = {file: file.read_text() for file in (ROOT / "docs").rglob("*.md")}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.papers", "--quick"],
        cwd=ROOT,
        env=os.environ | {"EVENKEEL_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    for number, name in enumerate(QUICK, 1):
        assert f"== {name} ({number} of {len(QUICK)})" in done.stdout
    for name in ("flexd_data", "real_data"):
        assert f"({name} lacked data" in done.stdout
    assert {file: file.read_text() for file in before} == before


def test_more_workers_than_keys_are_left_out(tmp_path, monkeypatch, capsys):
    """A short run of the flights has 94 destinations, and 96 workers were asked of them."""
    monkeypatch.setattr(data, "DATA", tmp_path)
    monkeypatch.setattr(flexd_data, "CHANNELS", (8, 96))
    names = [name for name in flexd_data.NAMES if name != "frontier"]
    monkeypatch.setattr(flexd_data, "RUNS", [(name, name, {}) for name in names])
    assert flexd_data.main(5_000) == data.LACKING
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if line.startswith(" " * 20) and "N = 8" in line]
    assert "N = 96" not in heads[0] and "N = 96" in heads[1]


def test_a_wrong_command_runs_nothing(capsys):
    for wrong, said in ((["--fast"], "--fast"), (["gedik", "fedik"], "no experiment ['fedik']")):
        with pytest.raises(SystemExit) as ended:
            papers.main(wrong)
        assert ended.value.code == 2
        found = capsys.readouterr()
        assert said in found.err and found.out == ""
