"""The benchmark `competitive`: no rule costs less than the best in hindsight, and its table."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.planning import competitive
from benchmarks.planning.competitive import costs, decided, planned, played, ratios
from benchmarks.planning.rent_or_buy import least_cost
from benchmarks.planning.unseen_sets import DataSet, counted

RULES = ("good", "bad", "none")


def drifting(seed: int = 1):
    random = np.random.default_rng(seed)
    load = 200 * random.lognormal(0, 1, 60)
    rows = [load := load * random.lognormal(0, 0.3, 60) for _ in range(9)]
    return counted(np.round(rows))


def test_no_rule_costs_less_than_the_best_in_hindsight():
    for seed in range(4):
        found = ratios(drifting(seed), 4)
        assert set(found) == {*RULES, *competitive.DECIDED, "each window", "never"}
        assert min(found.values()) >= 1 - 1e-12
        assert max(found[rule] for rule in RULES) < 3


def test_no_plan_is_taken_before_it_is_made():
    each, moves = costs(drifting(), 4)
    assert np.isinf(each[np.triu_indices(len(each), 1)]).all()
    assert np.isfinite(each[np.tril_indices(len(each))]).all() and (each[:, 0] >= 0).all()
    assert (np.diag(moves) == 0).all() and (moves >= 0).all() and moves.max() > 0
    assert all(np.isfinite(played(each, moves, rule)) for rule in RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_lasting_gain_is_bought_and_a_passing_one_is_not(rule):
    """Plan 1 costs 1 to take. It saves 0.5 in each window, or in one alone."""
    moves = 1.0 - np.eye(30)
    moves[2:, :] = moves[:, 2:] = 9.0
    lasting = np.full((30, 30), np.inf)
    lasting[:, 0], lasting[1:, 1:] = 0.5, 0.0
    lasting[np.triu_indices(30, 1)] = np.inf
    moves[0, 1:] = moves[1:, 0] = 1.0  # every later plan is plan 1 again
    moves[1:, 1:] = 0.0
    best = least_cost(lasting, moves)
    assert best == pytest.approx(1.5)
    limit = {"good": 1 + competitive.TRUST, "bad": 1 + 1 / competitive.TRUST, "none": 2}[rule]
    assert played(lasting, moves, rule) <= limit * best + 0.5
    passing = np.where(np.isinf(lasting), np.inf, 0.0)
    passing[1, 0] = 0.5
    assert played(passing, moves, rule) <= 0.5 + 1.0
    if rule != "bad":
        assert played(passing, moves, rule) == pytest.approx(0.5)


def test_decide_takes_the_plans_that_it_begins(monkeypatch):
    """Told to begin always, it costs what each window costs; told never to, what no plan costs."""
    series = drifting()
    plans = planned(series, 4)
    each, moves = costs(series, 4)
    expected = {"each window": True, "never": False}
    for name, begins in expected.items():
        answer = SimpleNamespace(rebalance=begins)
        monkeypatch.setattr(competitive, "decide", lambda *given, told=answer: told)
        cost = decided(series, plans, each, moves, "decide")
        assert cost / least_cost(each, moves) == pytest.approx(ratios(series, 4)[name])


def test_decide_looks_at_the_forecast_that_it_is_given(monkeypatch):
    series, asked = drifting(), []

    def noted(profile, function, channels, policy):
        asked.append((profile.load.sum(), profile.load.max()))
        return SimpleNamespace(rebalance=False)

    monkeypatch.setattr(competitive, "decide", noted)
    plans = planned(series, 4)
    each, moves = costs(series, 4)
    loads = [w.load.sum() for w in series.windows]
    decided(series, plans, each, moves, "knows")
    assert [total for total, _ in asked] == pytest.approx(loads[2:])
    asked.clear()
    decided(series, plans, each, moves, "stale")
    assert [total for total, _ in asked] == pytest.approx([loads[0]] * len(loads[2:]))


def test_the_table_has_a_row_a_set(capsys, monkeypatch):
    def missing():
        raise FileNotFoundError

    sets = (DataSet("small", partial(drifting, 3), True), DataSet("words", missing, False))
    monkeypatch.setattr(competitive, "SETS", sets)
    competitive.main(["--hashes", "2", "--channels", "3"])
    said = capsys.readouterr().out.splitlines()
    assert said[0].split()[:4] == ["set", *RULES] and said[1].startswith("small, N = 3")
    assert said[1].count("±") == 8 and "nan" not in said[1] and "left out" in said[2]
