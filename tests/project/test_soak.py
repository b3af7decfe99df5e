"""A short soak: twelve days of the year of `make soak`, held against pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.sessions import ROOT


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_twelve_days_have_no_difference(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.soak", "--days", "19", "--folder", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "19 days of seed 0: 0 differences" in ended.stdout
