"""Tries of the writer count in the phase in which each of them ended."""

from __future__ import annotations

import pytest

from benchmarks.writers.busy_writer import Commit
from benchmarks.writers.fire_chart import fire_chart
from benchmarks.writers.under_fire import Phase, phase, told

#: Rows move from second 10 to 20, and are verified until second 30.
MADE = [
    Commit("append", 1.0, 2.0, [], [], 200, 200),
    # It lost twice while rows moved, was refused once after, and committed then.
    Commit("MERGE", 11.0, 23.0, [14.0, 19.0], [21.0], 0, 200),
    Commit("MERGE", 25.0, 26.0, [], [], 0, 200),
]


def test_a_commit_that_lost_for_long_counts_where_it_lost() -> None:
    assert phase(MADE, "MERGE", 10, 20) == Phase([12.0], 0, 2, 0)
    assert phase(MADE, "MERGE", 20, 30) == Phase([12.0, 1.0], 2, 0, 1)
    assert phase(MADE, "append", 0, 10) == Phase([1.0], 1, 0, 0)


def test_it_tells_the_slowest_and_the_aborts(capsys: pytest.CaptureFixture[str]) -> None:
    told("while rows move", MADE, 10, 20, [Commit("MERGE", 1.0, 3.0, [], [], 0, 200)])
    append, merge = capsys.readouterr().out.splitlines()
    assert append == "  while rows move, append: no try ended"
    assert "p99 12.00 s (ratio 6.00 and 6.00); of 2 tries 2 lost" in merge
    assert merge.endswith("aborts 100.0%")


def test_the_chart_tells_first_tries_from_others() -> None:
    svg = fire_chart(MADE, {"migrate": 10.0}, 0.0)
    assert "MERGE, tried again: 1 commits" in svg
    assert "MERGE, the first try: 1 commits" in svg
