"""Measure how far rebalancing by each rule is from the best in hindsight, on the streams of unseen.

A plan is made in each window. To take it costs the load that it moves, and each window costs the
imbalance over 1 of the function in force, which was planned before. The best in hindsight takes of
the same plans those that cost least (dynamic programming). A ratio of 1 is as good.

The first three columns are a rule of rent or buy. "good" forecasts are the costs of the coming
windows themselves, and "bad" ones say the opposite. "none" does not look at them.

"decide" is the product's own decision, by the defaults of a spec. It is not made from these costs:
it begins over a trigger, where chance does not explain it. "knows" is the same where the forecast
is the next window itself, and "stale" where it is the first window, for ever.

"each window" takes every plan, "never" only the first.

    python -m benchmarks.planning.competitive [--hashes 3] [--channels 10] [--sets words,zipf]
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from benchmarks.planning.rent_or_buy import TRUST, is_due, least_cost
from benchmarks.planning.unseen_sets import SETS
from evenkeel.backtest.arguments import parse_channels
from evenkeel.backtest.runners import placed
from evenkeel.backtest.scoring import expected_profile, learn_window, sketch_of
from evenkeel.backtest.windows import Series, salted
from evenkeel.spec.table_spec import TableSpec
from partitioning.function.channels import numbered_channels
from partitioning.function.function import DEFAULT_SLOTS, PartitioningFunction
from partitioning.planning.aims import aim_for
from partitioning.planning.decide import Policy, decide
from partitioning.strategies.frontier.strategy import frontier
from partitioning.workload.metrics import imbalance, moved_shares
from partitioning.workload.profile import Floats, Sketch

#: Windows that a forecast of the saving reaches ahead.
HORIZON = 7
#: Forecasts that `decide` is played with.
DECIDED = ("decide", "knows", "stale")
#: Windows of a set at most.
WINDOWS_JUDGED = 30


def costs(series: Series, channels: int) -> tuple[Floats, Floats]:
    """Return the costs of windows (T, T) by the plan in force, and of moves (T, T) between plans.

    Plan k is made after window k, so that it is in force from window k + 1 on; row t is of window
    t + 1. A plan that is not made yet costs infinitely much.
    """
    return costs_of(series, planned(series, channels))


def planned(series: Series, channels: int) -> list[PartitioningFunction]:
    """Return the plan made after each window but the last, each from the one before."""
    owners, function = numbered_channels(channels), None
    plans: list[PartitioningFunction] = []
    seen: list[Sketch] = []
    for window in series.windows[:-1]:
        listed = None if function is None else function.explicit_keys
        learned = learn_window(series, window, channels, DEFAULT_SLOTS, listed)
        seen.append(sketch_of(learned, window))
        profile = expected_profile(learned, seen, "auto", function)
        aim = aim_for(profile, function, owners)
        function = frontier(profile, function, owners, max_imbalance=aim)
        plans.append(function)
    return plans


def costs_of(series: Series, plans: Sequence[PartitioningFunction]) -> tuple[Floats, Floats]:
    """Return the same as `costs` for given plans."""
    each = np.full((len(plans), len(plans)), np.inf)
    moves = np.zeros_like(each)
    for t, (window, unseen) in enumerate(pairwise(series.windows)):
        for k in range(t + 1):
            each[t, k] = imbalance(placed(plans[k], unseen)[0], plans[k].capacities) - 1
            moved = moved_shares(plans[k], plans[t], window.hashes)
            moves[k, t] = moves[t, k] = float((window.load * moved).sum() / window.load.sum())
    return each, moves


def played(each: Floats, moves: Floats, forecasts: str, trust: float = TRUST) -> float:
    """Return the cost of a run by the rule, with good, bad or no forecasts."""
    now, regret, total = 0, 0.0, 0.0
    for t, row in enumerate(each):
        cost = float(moves[now, t])
        ahead = each[t : t + HORIZON]
        saving = float((ahead[:, now] - ahead[:, t]).sum())
        predicted = {"good": saving, "bad": cost if saving < cost else 0.0, "none": cost}[forecasts]
        if cost > 0 and is_due(
            max(regret, 0.0), predicted, cost, 1 if forecasts == "none" else trust
        ):
            total, now, regret = total + cost, t, 0.0
        total += row[now]
        regret += row[now] - row[t]
    return total


def decided(
    series: Series,
    plans: Sequence[PartitioningFunction],
    each: Floats,
    moves: Floats,
    forecasts: str,
) -> float:
    """Return the cost of a run in which `decide` says when to take the plan of a window.

    Parameters
    ----------
    forecasts : what the load expected is: "decide": the forecast of a spec of defaults; "knows":
        the next window; "stale": the first window
    """
    fields, owners = TableSpec.model_fields, plans[0].channels
    days, decay, trigger, horizon = (
        fields[name].default for name in ("window", "decay", "trigger", "horizon")
    )
    now, total = 0, 0.0
    seen: deque[Sketch] = deque(maxlen=days)
    for t, (window, unseen) in enumerate(pairwise(series.windows)):
        source = {"decide": window, "knows": unseen, "stale": series.windows[0]}[forecasts]
        listed = plans[now].explicit_keys
        profile = learn_window(series, source, len(owners), DEFAULT_SLOTS, listed)
        if forecasts == "decide":
            seen.append(sketch_of(profile, window))
            profile = expected_profile(profile, list(seen), decay, plans[now])
        policy = Policy(trigger, aim_for(profile, plans[now], owners), horizon)
        if now < t and decide(profile, plans[now], owners, policy).rebalance:
            total, now = total + float(moves[now, t]), t
        total += float(each[t, now])
    return total


def ratios(series: Series, channels: int) -> dict[str, float]:
    """Return the cost of each rule over that of the best in hindsight."""
    plans = planned(series, channels)
    each, moves = costs_of(series, plans)
    best = least_cost(each, moves)
    count = np.arange(len(each))
    found = {name: played(each, moves, name) for name in ("good", "bad", "none")}
    found |= {name: decided(series, plans, each, moves, name) for name in DECIDED}
    found["each window"] = float(each[count, count].sum() + moves[count[:-1], count[1:]].sum())
    found["never"] = float(each[:, 0].sum())
    return {name: cost / best for name, cost in found.items()}


def main(argv: Sequence[str] | None = None) -> None:
    """Print the mean ratio of each rule on each set, with its standard error over hashes."""
    parser = argparse.ArgumentParser(prog="competitive", description=__doc__.split("\n")[0])
    parser.add_argument("--hashes", type=int, default=3, help="how often keys are salted")
    parser.add_argument("--channels", default="10", help="numbers of channels, as 10,20")
    parser.add_argument("--sets", default="", help="parts of names of sets, as words,zipf")
    parser.add_argument("--half", choices=("choice", "kept"), help="sets for choices, or kept back")
    given = parser.parse_args(argv)
    print(
        f"{'set':36}"
        + "".join(f"{n:>16}" for n in ("good", "bad", "none", *DECIDED, "each window", "never"))
    )
    means: list[Floats] = []
    for data in SETS:
        if not any(part in data.name for part in given.sets.split(",")):
            continue
        if given.half and data.choice != (given.half == "choice"):
            continue
        try:
            series = data.series(WINDOWS_JUDGED)
        except FileNotFoundError:
            print(f"{data.name}: left out, EVENKEEL_DATA lacks its file")
            continue
        for count in parse_channels(given.channels):
            rows = [ratios(salted(series, s), count) for s in range(1, given.hashes + 1)]
            values = np.array([list(r.values()) for r in rows])
            means.append(values.mean(axis=0))
            print(_line(f"{data.name}, N = {count}", values), flush=True)
    if len(means) > 1:
        print(_line(f"mean of {len(means)}", np.array(means)))


def _line(name: str, values: Floats) -> str:
    """Write a row's means over the first axis, with their standard errors."""
    alone = np.full(values.shape[1], np.nan)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else alone
    cells = zip(values.mean(axis=0), error, strict=True)
    return f"{name:36}" + "".join(f"{mean:>8.2f} ±{one:<6.2f}" for mean, one in cells)


if __name__ == "__main__":
    main()
