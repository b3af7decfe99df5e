"""`make papers-quick` on a machine that has none of the papers' data."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.papers import data
from benchmarks.papers.__main__ import QUICK
from benchmarks.papers.flexd import flexd_data

ROOT = Path(__file__).parents[2]


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
