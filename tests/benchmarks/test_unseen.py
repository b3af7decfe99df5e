"""The benchmark `unseen`: what it plays, and the reference that it compares with."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.planning import unseen
from benchmarks.planning.unseen_reference import ReferencePlanner
from benchmarks.planning.unseen_sets import SETS, DataSet, counted


def small() -> DataSet:
    random = np.random.default_rng(1)
    return DataSet("small", lambda: counted(random.poisson(20.0, (5, 60)) * 1.0), choice=True)


def test_half_of_the_sets_are_for_choices():
    assert abs(sum(1 if s.choice else -1 for s in SETS)) <= 1
    assert len({s.name for s in SETS}) == len(SETS)


MADE = [s for s in SETS if s.name.startswith(("zipf", "ycsb", "hot", "weekdays"))]


@pytest.mark.parametrize("data", MADE, ids=lambda s: s.name)
def test_generated_sets_are_the_same_each_time(data):
    one, two = data.series(), data.series()
    assert len(one.windows) >= 20
    for a, b in zip(one.windows, two.windows, strict=True):
        assert (a.hashes == b.hashes).all() and (a.load == b.load).all()


def test_the_reference_keeps_an_even_stream_where_it_is():
    series = counted(np.full((4, 4000), 10.0))
    planner = ReferencePlanner(series, 4)
    planner.learn(np.full(4000, 10.0))
    before = planner.owners()
    for _ in range(3):
        planner.learn(np.full(4000, 10.0))
        assert (planner.owners() == before).all()
    loads = np.bincount(before, minlength=4)
    assert loads.max() / loads.mean() < 1.006


def test_the_tables_show_every_planner_with_errors(capsys, monkeypatch):
    monkeypatch.setattr(unseen, "SETS", (small(),))
    unseen.main(["--hashes", "2", "--channels", "3"])
    said = capsys.readouterr().out
    assert all(said.count(name) >= 2 for name in unseen.PLAYERS)
    assert "small, N = 3" in said and "±" in said and "nan" not in said
    assert "Sets that are only reported: means over 0 rows" in said


def test_a_missing_file_is_told_and_left_out(capsys, monkeypatch):
    def missing():
        raise FileNotFoundError(Path("novel_words.parquet"))

    monkeypatch.setattr(unseen, "SETS", (DataSet("words", missing, choice=False),))
    unseen.main(["--hashes", "1", "--channels", "3"])
    assert "words: left out, EVENKEEL_DATA has no novel_words.parquet" in capsys.readouterr().out
