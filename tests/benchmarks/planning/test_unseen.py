"""The benchmark `unseen`: what it plays, and the reference that it compares with."""

import re
from dataclasses import replace
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest

from benchmarks.papers.data import DATA
from benchmarks.planning import unseen
from benchmarks.planning.unseen import kept, lines, verdict
from benchmarks.planning.unseen_players import (
    PLAYERS,
    RIVALS,
    SPECS,
    by_first_window,
    play_frontier,
    play_reference,
    play_spec,
)
from benchmarks.planning.unseen_reference import ReferencePlanner
from benchmarks.planning.unseen_sets import SETS, DataSet, counted
from evenkeel.spec.table_spec import TableSpec
from partitioning.streams.zipf_stream import hashed_keys


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
    hashes, planner = hashed_keys(4000), ReferencePlanner(4)
    before = planner.plan(hashes, np.full(4000, 10.0))
    for _ in range(3):
        assert (planner.plan(hashes, np.full(4000, 10.0)) == before).all()
    loads = np.bincount(before, minlength=4)
    assert loads.max() / loads.mean() < 1.006


GIVEN = DATA.parent / "trials" / "planner_reference.py"


@pytest.mark.skipif(not GIVEN.exists(), reason="the reference that was given is not here")
@pytest.mark.parametrize(("channels", "z"), [(3, 1.2), (10, 0.9), (20, 1.5)])
def test_the_reference_plans_as_the_one_that_was_given(channels, z):
    given = run_path(str(GIVEN))["Planner"](channels)
    own, random = ReferencePlanner(channels), np.random.default_rng(channels)
    hashes = random.integers(-(2**62), 2**62, 1000)
    weights = random.permutation(np.arange(1.0, 1001) ** -z)
    for count in range(400, 1000, 60):
        weights *= random.lognormal(0, 0.3, 1000)
        load = random.poisson(20_000 * weights[:count] / weights[:count].sum()) * 1.0
        expected = given.plan(hashes[:count], load)
        assert (own.plan(hashes[:count], load) == expected).all()
    assert len(np.unique(expected)) == channels


def test_the_reference_sees_no_window_before_it_comes():
    """A key has no number before its first window, and the same plan whatever comes later."""
    series = small().series()
    later = replace(series, windows=(*series.windows[:4], series.windows[0]))
    one, two = (play_reference(replace(s, windows=s.windows[:4]), 3) for s in (series, later))
    assert one[:2] == two[:2]
    codes, hashes = by_first_window(series)
    assert (hashes[codes] == series.hashes).all()
    first = codes[np.searchsorted(series.hashes, series.windows[0].hashes)]
    assert sorted(first) == list(range(len(first)))


def test_of_a_long_stream_the_last_windows_are_played():
    made = counted(np.arange(1.0, 11)[:, None] * np.ones((1, 40)))
    data = DataSet("long", lambda: made, True)
    assert [w.load[0] for w in data.series(4).windows] == [7.0, 8.0, 9.0, 10.0]
    assert len(data.series(10).windows) == 10
    # The file ends in the middle of the last one.
    data = DataSet("cut off", lambda: replace(made, cut_off=True), True)
    assert [w.load[0] for w in data.series(4).windows] == [6.0, 7.0, 8.0, 9.0]


@pytest.mark.parametrize(
    ("less", "error", "rule"), [(-0.1, 0.01, "below"), (0.01, 0.02, "level"), (0.03, 0.02, "FAILS")]
)
def test_the_rule(less, error, rule):
    assert verdict(less, error) == rule
    ours = np.array([[1.1, 0.0, 0.0], [1.1, 0.0, 0.0]])
    rival = ours - [[less + error, 0, 0], [less - error, 0, 0]]
    shown = list(lines("set", {"frontier": ours, "last window": rival}))[1]
    assert f"{less:+.4f} ±{error:.4f}" in shown and shown.split()[-2] == rule


def test_a_row_of_the_page_shows_the_hardest_rivals():
    ours = np.array([[1.1, 0.01, 0.0], [1.1, 0.01, 0.0]])
    found = {"frontier": ours}
    for rival, less in (("reference", -0.02), ("last window", -0.01), ("decay 0.2", 0.01),
                        ("decay 0.5", 0.03)):  # fmt: skip
        found[rival] = ours - [[less + 0.001, 0, 0], [less - 0.001, 0, 0]]
    assert unseen.page_row("set, N = 5, choice", found) == (
        "| set, N = 5, choice | 1.1000, 1.00% | -0.0200 ±0.0010, 1.00% | -0.0100 ±0.0010 "
        "| +0.0300 ±0.0010 | decay 0.2, decay 0.5 |"
    )


def test_the_tables_show_every_planner_with_errors(capsys, monkeypatch):
    monkeypatch.setattr(unseen, "SETS", (small(),))
    unseen.main(["--hashes", "2", "--channels", "3"])
    said = capsys.readouterr().out
    assert all(said.count(name) >= 2 for name in PLAYERS)
    assert "small, N = 3" in said and "±" in said and "nan" not in said
    assert "Sets for report: means over 0 rows" in said
    judged = [line for line in said.splitlines() if "below" in line and "FAILS" in line]
    assert len(judged) == len(RIVALS)
    assert all(sum(map(int, re.findall("(?:below|level|FAILS) ([0-9]+)", j))) == 1 for j in judged)


def test_a_set_of_fewer_keys_than_channels_is_left_out(capsys, monkeypatch):
    few = DataSet("few", lambda: counted(np.ones((5, 4))), choice=True)
    monkeypatch.setattr(unseen, "SETS", (few, small()))
    unseen.main(["--hashes", "2", "--channels", "5", "--players", "frontier,reference"])
    said = capsys.readouterr().out
    assert "few: left out, 5 channels for 4 keys" in said and "small, N = 5" in said


def test_several_processes_give_the_same(capsys, monkeypatch):
    monkeypatch.setattr(unseen, "SETS", [s for s in SETS if s.name == "hot keys"])
    shown = []
    for jobs in "12":
        asked = "--hashes 2 --channels 3 --windows 4 --players frontier,reference --half report"
        unseen.main([*asked.split(), "--jobs", jobs])
        shown.append(re.sub(r" *[0-9.]+( ms|\n)", "", capsys.readouterr().out))  # no times
    assert shown[0] == shown[1] and "hot keys" in shown[0]


@pytest.mark.parametrize("decay", SPECS.values())
def test_a_spec_rebalances_only_over_its_trigger(decay):
    """No window of an even stream is over the trigger, and the other planner moves for less."""
    random = np.random.default_rng(1)
    series = counted(random.poisson(10.0, (8, 40_000)) * 1.0)
    assert play_spec(series, 4, decay)[1] == 0 < play_frontier(series, 4, decay=0.0)[1]


def test_a_spec_plans_by_its_decay():
    """Ten keys of 60 grow from window to window. A spec that weighs all alike is late."""
    loads = np.full((12, 60), 100.0)
    loads[:, :10] *= np.floor(1.4 ** np.arange(12))[:, None]
    series = counted(loads)
    assert play_spec(series, 4, 0.5)[0] < play_spec(series, 4, None)[0]
    assert TableSpec.model_fields["decay"].default in SPECS.values()


def test_another_player_is_compared_with_all_others(capsys, monkeypatch):
    monkeypatch.setattr(unseen, "SETS", (small(),))
    asked = ["--hashes", "2", "--channels", "3", "--half", "choice", "--ours", "spec 0.5"]
    unseen.main([*asked, "--players", "frontier,spec none,spec 0.5"])
    said = capsys.readouterr().out.splitlines()
    rows = [row for row in said if re.search("(below|level|FAILS) +[0-9.]+ *$", row)]
    rows = [row for row in rows if "less" not in row]
    assert len(rows) == 2 and not any("spec 0.5" in row for row in rows)
    assert sum("below" in line and "FAILS" in line for line in said) == 2


def test_a_missing_file_is_told_and_left_out(capsys, monkeypatch):
    def missing():
        raise FileNotFoundError(Path("novel_words.parquet"))

    monkeypatch.setattr(unseen, "SETS", (DataSet("words", missing, choice=False),))
    unseen.main(["--hashes", "1", "--channels", "3"])
    assert "words: left out, EVENKEEL_DATA lacks its file" in capsys.readouterr().out


def test_a_row_counts_for_each_player_that_no_other_beats_beyond_an_error():
    def player(*sums: float) -> np.ndarray:
        return np.array([[1 + s, 0.0, 0.0] for s in sums])

    rows = [
        {"a": player(0.1, 0.1), "b": player(0.2, 0.2), "c": player(0.1, 0.1)},
        {"a": player(0.3, 0.3), "b": player(0.2, 0.4), "c": player(0.1, 0.1)},
    ]
    assert [line.split() for line in list(kept(rows))[1:]] == [["a", "1"], ["b", "0"], ["c", "2"]]
    assert not list(kept([]))
