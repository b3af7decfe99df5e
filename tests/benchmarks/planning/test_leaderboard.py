"""The benchmark `leaderboard`: what it compares, at which cost, and how it tells it."""

import re
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.planning import leaderboard
from benchmarks.planning.leaderboard import (
    DIALS,
    RIVALS_OF_OURS,
    Player,
    compared,
    judged,
    line,
    settings,
)
from benchmarks.planning.unseen_sets import DataSet, counted
from partitioning.function.channels import numbered_channels
from partitioning.strategies import SPLITTING
from partitioning.strategies.options import check_options


def drifting(seed: int = 1):
    random = np.random.default_rng(seed)
    load = 200 * random.lognormal(0, 1, 60)
    rows = [load := load * random.lognormal(0, 0.3, 60) for _ in range(6)]
    return counted(np.round(rows))


def test_who_moves_nothing_is_met_without_a_move():
    even, moved, ours, _ = compared(drifting(), "uniform", 4)
    assert moved == 0 and ours > 1
    assert even != ours, "its first function is frontier's own"


def test_our_bytes_are_within_the_rivals():
    series, channels = drifting(), numbered_channels(4)
    theirs, ours = Player("readj", channels), Player("frontier", channels)
    for window, unseen in pairwise(series.windows):
        theirs.play(series, window, unseen)
        ours.play(series, window, unseen, budget=theirs.moved[-1] * float(window.load.sum()))
        assert ours.moved[-1] <= theirs.moved[-1] + 1e-9
    assert len(ours.even) == 5 and ours.scores[1] == pytest.approx(np.mean(ours.moved[1:]))


def test_our_imbalance_is_the_rivals_or_less_where_it_was_learned():
    series, channels = drifting(2), numbered_channels(4)
    theirs, ours = Player("consistent", channels), Player("frontier", channels)
    for window, unseen in pairwise(series.windows):
        theirs.play(series, window, unseen)
        ours.play(series, window, unseen, max_imbalance=theirs.learned)
        assert ours.learned <= theirs.learned + 1e-9


@pytest.mark.parametrize(
    ("less", "error", "told"),
    [(-0.2, 0.1, "better"), (0.2, 0.1, "worse"), (0.1, 0.2, "level"), (0.0, 0.0, "level")],
)
def test_a_difference_is_judged_by_its_error(less, error, told):
    assert judged(less, error) == told
    rows = np.array([[1.5, 0.2, 1.5 + less + d, 0.2 + less + d] for d in (error, -error)])
    text, *verdicts = line("set", "readj", rows)
    assert verdicts == [told, told] and f"{less:+.4f} ±{error:.4f}" in text


def test_the_board_has_a_row_a_rival_and_counts_them(capsys, monkeypatch):
    def missing():
        raise FileNotFoundError

    sets = (DataSet("small", partial(drifting, 3), True), DataSet("words", missing, False))
    monkeypatch.setattr(leaderboard, "SETS", sets)
    leaderboard.main(["--hashes", "2", "--channels", "3", "--strategies", "readj,elb"])
    said = capsys.readouterr().out.splitlines()
    assert [row.split()[4] for row in said[1:3]] == ["readj", "elb"]
    assert "left out" in said[3] and "nan" not in "".join(said)
    for row in said[4:]:
        assert sum(map(int, re.findall("(?:better|level|worse) ([0-9]+)", row))) == 2
    assert not set(RIVALS_OF_OURS) & SPLITTING


def test_a_dial_is_turned_and_each_setting_is_a_row(capsys, monkeypatch):
    monkeypatch.setattr(leaderboard, "SETS", (DataSet("small", partial(drifting, 3), True),))
    asked = ["--hashes", "2", "--channels", "3", "--strategies", "sbk,uniform", "--dials"]
    leaderboard.main(asked)
    _, *rows, sbk, uniform = capsys.readouterr().out.splitlines()
    assert [" ".join(row.split()[4:6]) for row in rows[:3]] == [
        f"sbk tau={tau}" for tau in ("0.02", "0.1", "0.3")
    ]
    moved = [float(row.split()[7].rstrip("%")) for row in rows[:3]]
    assert len(set(moved)) > 1, "the option reaches its strategy"
    assert [
        sum(map(int, re.findall("(?:better|level|worse) ([0-9]+)", row))) for row in (sbk, uniform)
    ] == [6, 2]


def test_a_dial_is_an_option_of_its_strategy():
    for rival in DIALS:
        for _, options in settings(rival, dials=True):
            check_options(rival, options)
    assert set(DIALS) <= set(RIVALS_OF_OURS) and settings("uniform", dials=True) == [
        ("uniform", {})
    ]


@pytest.mark.parametrize("asked", [["--hashes", "1"], ["--strategies", "pkg"]])
def test_what_cannot_be_compared_is_refused(asked, capsys):
    with pytest.raises(SystemExit):
        leaderboard.main(asked)
    assert "expected 2 hashes or more, and strategies of uniform" in capsys.readouterr().err
