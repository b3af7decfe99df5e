"""The benchmark `lp_time`: its linear program, its parts, and what it tells of them."""

import numpy as np
import pytest

from benchmarks.solvers import lp_time
from benchmarks.solvers.lp_time import AIM, Rebalance, Solver, cut_bytes, in_parts, solved
from partitioning.workload.bounds import least_bytes


def task(seed: int, items: int = 60, channels: int = 3) -> Rebalance:
    random = np.random.default_rng(seed)
    load, sizes = random.lognormal(0, 1, items), random.lognormal(0, 1, items)
    home = random.integers(0, channels, items).astype(np.int32)
    return Rebalance(load, sizes, home, np.full(channels, load.sum() / channels))


def within(found, one: Rebalance) -> bool:
    return bool((found.T @ one.load <= AIM * one.fair * (1 + 1e-9)).all())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_program_moves_the_least_bytes(seed):
    one = task(seed)
    found = solved(one)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert within(found, one) and (found >= -1e-9).all()
    bound = least_bytes(one.load, one.sizes, one.home, np.ones(3), np.array([AIM]))
    assert cut_bytes(one, found) == pytest.approx(float(bound[0]) / one.sizes.sum())


def test_parts_are_joined_within_the_limit_and_cost_more():
    one, random = task(4), np.random.default_rng(1)
    found = in_parts(one, 4, random)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert within(found, one)
    assert cut_bytes(one, found) > cut_bytes(one, solved(one)) > 0
    assert cut_bytes(one, in_parts(one, 1, random)) == pytest.approx(cut_bytes(one, solved(one)))


@pytest.mark.skipif(lp_time.highspy is None, reason="highspy is not installed")
def test_a_warm_start_changes_no_result():
    warm = Solver(warm=True)
    for seed in (5, 6):
        one = task(seed)
        assert cut_bytes(one, warm(one)) == pytest.approx(cut_bytes(one, solved(one)))


def test_there_is_a_row_for_each_player(capsys):
    lp_time.main(["--sizes", "80x4", "--rounds", "2", "--parts", "2"])
    rows = [row for row in capsys.readouterr().out.splitlines() if row.startswith("80 x 4")]
    assert [row[14:24].strip() for row in rows][:3] == ["frontier", "LP", "POP 2"]
    for row in rows:
        assert float(row.split()[-3 if "frontier" in row else -4]) < 3


def test_one_round_is_refused(capsys):
    with pytest.raises(SystemExit):
        lp_time.main(["--rounds", "1"])
    assert "expected 2 rounds or more, got 1" in capsys.readouterr().err
