"""Each benchmark of Spark's jobs runs, on few rows: its figures come from a command that works."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from benchmarks.__main__ import RATIO, module_of
from evenkeel.local_env import environment
from tests.support.wheel import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: Benchmark -> options that make it small.
SMALL = {
    "adopt": "--rows 20000 --runs 1",
    "at_scale": "--rows 20000",
    "constraint": "--rows 20000 --runs 1",
    "iceberg": "--rows 20000 --runs 1",
    "iceberg_state": "--rows 20000 --runs 1 --moves 1",
    "incremental": "--rows 2000 --keys 200 --runs 1",
    "learn": "--rows 20000 --keys 1000 --runs 1",
    "migrate": "--rows 20000 --runs 1",
    "reading": "--rows 20000 --keys 2000 --runs 1",
    "routing": "--rows 20000 --runs 1",
    "skewed_job": "--rows 20000 --runs 1",
    "skewed_join": "--rows 20000",
}
#: Benchmark -> what it prints in place of a ratio of paired times.
OTHERS = {
    "at_scale": "core hours by the slopes",
    "migrate": "against .* for a full rewrite: ratio",
    "skewed_job": "ours +slowest over mean: rows",
    "skewed_join": "ours, split key",
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_runs_and_prints_its_figure(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module_of(name), *SMALL[name].split()],
        cwd=ROOT,
        env={**os.environ, **environment(small=True)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(OTHERS.get(name, RATIO.pattern), done.stdout), done.stdout
