"""Measure how long linear programs take beside frontier: whole, in random parts, and from a start.

Items sit on channels, and their loads drift from round to round. Each round has to come within 1.05
times a fair share for the fewest bytes. In every round all begin where frontier has left the items.
The linear program cuts items, and frontier does not. So a program's items go to the channel with
their largest part, and "imbalance" is that of whole items.

- "LP" solves it from nothing: HiGHS by SciPy's `linprog`, which has no start.
- "POP k" puts the items at random into k parts, solves each, and joins the results (D. Narayanan
  et al., SOSP 2021). In the paper a part has some of the resources, too. Here it has a part of
  every channel, in proportion to its load: there are few channels, and items are to stay.
- "LP cold" and "LP warm" solve by highspy, from nothing and from the basis of the round before.
  COpter (S. Subramanya et al., SOSP 2025) goes on from the last round by a proximal-point method.
  It is not here; a warm simplex is what we have in its place.

Only the abstracts of both papers were at hand. CPU seconds include the building of the program.
highspy is not among the locked packages. Without it the last two are left out:
`.venv/bin/uv pip install --python .venv/bin/python highspy`.

    python -m benchmarks.solvers.lp_time [--sizes 1000x10,5000x20] [--rounds 5] [--parts 4,16]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import linprog

from benchmarks.planning.frontier_scale import problem
from partitioning.strategies.frontier.strategy import frontier
from partitioning.workload.profile import Floats, Profile

try:
    import highspy
except ImportError:
    highspy = None

#: Imbalance that a plan has to reach.
AIM = 1.05
#: Deviation of the logarithm of an item's load, from round to round.
DRIFT = 0.5
SIZES = "1000x10,5000x20,10000x20"
#: An item is cut if less than this part of it is on one channel.
WHOLE_PART = 1 - 1e-6
Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Rebalance:
    """A round: loads and bytes of items (n,), where they are (n,), and fair shares (N,)."""

    load: Floats
    sizes: Floats
    home: Ints
    fair: Floats

    def part(self, items: npt.NDArray[np.intp]) -> Rebalance:
        """Return the problem of some items, which have their part of each channel."""
        share = self.load[items].sum() / self.load.sum()
        return Rebalance(
            self.load[items], self.sizes[items], self.home[items], self.fair * float(share)
        )


def program(task: Rebalance) -> tuple[Floats, sparse.csc_array, Floats]:
    """Return costs (nN,), rows (N + n, nN) and their limits (N + n,) of the linear program.

    Variable i N + c is the part of item i on channel c. The first N rows are the channels' loads.
    The others say that an item's parts add up to 1.
    """
    items, channels = len(task.load), len(task.fair)
    cost = np.zeros(items * channels)
    cost[np.arange(items) * channels + task.home] = -task.sizes
    by_channel = sparse.kron(task.load[None, :], sparse.eye_array(channels))
    whole = sparse.kron(sparse.eye_array(items), np.ones((1, channels)))
    return (
        cost,
        sparse.csc_array(sparse.vstack([by_channel, whole])),
        np.concatenate([AIM * task.fair, np.ones(items)]),
    )


def solved(task: Rebalance) -> Floats:
    """Return the parts of each item on each channel, (n, N), solved from nothing."""
    cost, rows, limits = program(task)
    channels = len(task.fair)
    found = linprog(
        cost,
        A_ub=rows[:channels],
        b_ub=limits[:channels],
        A_eq=rows[channels:],
        b_eq=limits[channels:],
        method="highs",
    )
    if found.x is None:
        raise RuntimeError(f"expected a solution, got: {found.message}")
    return found.x.reshape(-1, channels)


def in_parts(task: Rebalance, parts: int, random: np.random.Generator) -> Floats:
    """Return what `solved` does, from `parts` problems of items drawn at random."""
    found = np.zeros((len(task.load), len(task.fair)))
    for items in np.array_split(random.permutation(len(task.load)), parts):
        found[items] = solved(task.part(items))
    return found


class Solver:
    """HiGHS with the basis of its last problem, from which it starts if it is `warm`."""

    def __init__(self, *, warm: bool) -> None:
        self.warm, self.basis = warm, None

    def __call__(self, task: Rebalance) -> Floats:
        """Return what `solved` does."""
        cost, rows, limits = program(task)
        channels, solver, model = len(task.fair), highspy.Highs(), highspy.HighsLp()
        solver.setOptionValue("output_flag", False)
        model.num_col_, model.num_row_ = len(cost), len(limits)
        model.col_cost_ = cost
        model.col_lower_, model.col_upper_ = np.zeros(len(cost)), np.ones(len(cost))
        model.row_lower_ = np.where(np.arange(len(limits)) < channels, -np.inf, limits)
        model.row_upper_ = limits
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = rows.indptr
        model.a_matrix_.index_ = rows.indices
        model.a_matrix_.value_ = rows.data
        solver.passModel(model)
        if self.warm and self.basis is not None:
            solver.setBasis(self.basis)
        solver.run()
        self.basis = solver.getBasis()
        return np.array(solver.getSolution().col_value).reshape(-1, channels)


def rounds(items: int, channels: int, count: int) -> Sequence[tuple[Rebalance, Ints, float]]:
    """Return each round, with where frontier puts its items, and its CPU seconds."""
    random = np.random.default_rng(1)
    profile, function = problem(items, channels, "random bytes")
    found = []
    for _ in range(count):
        load = profile.load * random.lognormal(0, DRIFT, items)
        profile = replace(profile, load=load)
        task = _task(profile, function.slots, channels)
        began = time.process_time()
        function = frontier(profile, function, function.channels, max_imbalance=AIM)
        found.append((task, function.slots, time.process_time() - began))
    return found


def _task(profile: Profile, home: Ints, channels: int) -> Rebalance:
    fair = np.full(channels, profile.load.sum() / channels)
    return Rebalance(profile.load, profile.bytes, home, fair)


def measured(task: Rebalance, at: Ints) -> tuple[float, float]:
    """Return the imbalance and the share of the bytes moved if items are at channels, (n,)."""
    loads = np.bincount(at, task.load, minlength=len(task.fair))
    moved = task.sizes[at != task.home].sum() / task.sizes.sum()
    return float((loads / task.fair).max()), float(moved)


def cut_bytes(task: Rebalance, parts: Floats) -> float:
    """Return the share of the bytes that move if items may be cut."""
    stays = parts[np.arange(len(task.load)), task.home]
    return float((task.sizes * (1 - stays)).sum() / task.sizes.sum())


def table(items: int, channels: int, count: int, parts: Sequence[int]) -> list[str]:
    """Return the lines of one size: of each player the means over rounds."""
    random = np.random.default_rng(2)
    played = rounds(items, channels, count)
    players: dict[str, Callable[[Rebalance], Floats]] = {"LP": solved}
    for k in parts:
        players[f"POP {k}"] = lambda task, k=k: in_parts(task, k, random)
    if highspy is not None:
        players |= {"LP cold": Solver(warm=False), "LP warm": Solver(warm=True)}
    rows = {"frontier": [(s, *measured(task, at), np.nan, 0) for task, at, s in played]}
    for name, solve in players.items():
        rows[name] = []
        for task, _, _ in played:
            began = time.process_time()
            shares = solve(task)
            seconds = time.process_time() - began
            cut = int((shares.max(axis=1) < WHOLE_PART).sum())
            whole = measured(task, shares.argmax(axis=1))
            rows[name].append((seconds, *whole, cut_bytes(task, shares), cut))
    size = f"{items:,} x {channels}"
    return [
        f"{size:14}{name:10}{at[0]:>10.3f}{at[1]:>11.4f}{at[2]:>9.3%}"
        f"{'' if np.isnan(at[3]) else format(at[3], '.3%'):>10}{at[4]:>8.0f}"
        for name, row in rows.items()
        # A first round has no start.
        for at in [np.mean(row[1:], axis=0)]
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table of the sizes that are asked for."""
    parser = argparse.ArgumentParser(prog="lp_time", description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default=SIZES, help="items x channels, as 1000x10,5000x20")
    parser.add_argument(
        "--rounds", type=int, default=5, help="rounds, from 2; the first is not told"
    )
    parser.add_argument("--parts", default="4,16", help="parts of POP, as 4,16")
    given = parser.parse_args(argv)
    if given.rounds < 2:
        parser.error(f"expected 2 rounds or more, got {given.rounds}")
    if highspy is None:
        print("highspy is not installed: no LP cold and LP warm")
    print(
        f"{'items x N':14}{'':10}{'CPU s':>10}{'imbalance':>11}{'moved':>9}{'if cut':>10}{'cut':>8}"
    )
    parts = [int(k) for k in given.parts.split(",")]
    for size in given.sizes.split(","):
        items, channels = map(int, size.split("x"))
        for line in table(items, channels, given.rounds, parts):
            print(line, flush=True)


if __name__ == "__main__":
    main()
