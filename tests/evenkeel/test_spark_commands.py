"""The console's commands that start Spark, where the jobs are not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: The console, in an installation without the package `evenkeel_spark`.
CODE = """
from evenkeel import submit
submit.find_spec = lambda name: None
from evenkeel.cli import main
main()
"""


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["job", "learn"], 2)])
def test_without_the_jobs_the_console_starts_and_says_what_to_do(
    arguments: list[str], code: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, done.stderr
    if code:
        (line,) = done.stderr.splitlines()
        assert "expected the package evenkeel_spark" in line and "evenkeel doctor" in line
