"""A short soak: twelve days of the year of `make soak`, held against pandas; and what fails it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partitioning.errors import FenceError, GateError
from tests.chaos.sessions import ROOT
from tests.soak.changes import holding
from tests.soak.effects import DAYS_PER_EFFECT, reason, too_few, unexplained


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_twelve_days_have_no_difference(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.soak", "--days", "19", "--folder", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "19 days of seed 0: 0 differences" in ended.stdout
    assert re.search(r"[1-9]\d* +epochs published", ended.stdout)
    assert re.search(r"[1-9][\d,]* +rows moved by migrate", ended.stdout)
    # Whoever is asked about a plan has answered.
    assert re.search(r"[1-9]\d* +plans approved by a person", ended.stdout)
    # A column or a table has come or gone on day 10, and a key was forgotten on day 13.
    for step in ("evolve", "forget"):
        assert re.search(rf"[1-9]\d* +commits of {step}", ended.stdout)
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert again.stdout.startswith("19 days were played before; nothing is played now\n")
    assert ended.stdout.splitlines()[-1] == again.stdout.splitlines()[-1]


def test_errors_that_nothing_explains_end_the_soak() -> None:
    lost, refused = (
        GateError("rows of D001 are lost"),
        FenceError("has another constraint"),
    )
    assert reason(lost) == "GateError: rows of D# are lost"
    for task in ("migrate", "verify"):
        assert unexplained(task, lost, alone=False)
        assert unexplained(task, refused, alone=True)
        assert not unexplained(task, refused, alone=False)
    assert not unexplained("validate_plan", lost, alone=True)


def test_a_key_that_a_file_still_holds_is_found(tmp_path: Path) -> None:
    registry, totals = tmp_path / "registry" / "sketches", tmp_path / "state" / "totals"
    for folder in (registry, totals):
        folder.mkdir(parents=True)
    np.savez_compressed(registry / "day.npz", heavy_names=np.array(["D001", "D002"]))
    (registry / "plan.json").write_text('{"moves": ["D003"]}')
    pq.write_table(pa.table({"dest": ["D004", None]}), totals / "part.parquet")
    found = {(file.name, *keys) for file, keys in holding(tmp_path, ["D002", "D003", "D004"])}
    assert found == {("day.npz", "D002"), ("plan.json", "D003"), ("part.parquet", "D004")}
    assert not list(holding(tmp_path, ["D005"]))


def test_a_soak_in_which_nothing_happens_fails() -> None:
    assert too_few({"effects": {"epochs published": 3}}, 39) is None
    enough = {what: 358 // each for what, each in DAYS_PER_EFFECT.items()}
    enough["disasters, with clones brought back"] = enough.pop("disasters")
    assert too_few({"effects": enough}, 358) is None
    for what in enough:
        assert too_few({"effects": enough | {what: 0}}, 358) is not None
    found = too_few({"effects": {"epochs published": 3}}, 40)
    assert found == "epochs published: 3 in 40 days, expected 4 at least"
    found = too_few({"effects": enough | {"kills of a job that moves rows": 0}}, 358)
    assert found == "kills of a job that moves rows: 0 in 358 days, expected 1 at least"
