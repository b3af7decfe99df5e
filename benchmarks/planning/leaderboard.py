"""Compare strategies with ours at equal cost, on the streams of unseen.

Every strategy plans in each window for the window that it learned, and serves the next one. Beside
each rival our own, `frontier`, is played twice. "at its bytes" may move in each window what the
rival moved, and shows the imbalance. "at its imbalance" aims at what the rival reached on the
window learned, and shows the load moved. "less" is the paired difference, frontier less the rival,
with its standard error over hashes of the keys. Under 0, ours is better.

The last lines count the rows in which ours is better, level (within one standard error) and worse.
Only strategies that keep keys whole are compared. Who splits keys pays by copies, which no column
here has. A rival that moves little may be uneven, and the other way round. So `--dials` plays each
rival at several settings, and frontier at the cost of each.

    python -m benchmarks.planning.leaderboard [--hashes 5] [--channels 10] [--sets words,zipf]
        [--strategies readj,consistent] [--windows 30] [--dials]
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product

import numpy as np

from benchmarks.planning.unseen import mean_and_error
from benchmarks.planning.unseen_sets import SETS, DataSet
from evenkeel.backtest.arguments import parse_channels
from evenkeel.backtest.runners import placed
from evenkeel.backtest.scoring import learn_window
from evenkeel.backtest.windows import Series, Window, salted
from partitioning.function.channels import Channel, numbered_channels
from partitioning.function.function import DEFAULT_SLOTS, PartitioningFunction
from partitioning.strategies import STRATEGIES, WHOLE
from partitioning.workload.metrics import imbalance, imbalance_of, moved_shares
from partitioning.workload.profile import Floats

#: Windows of a set at most.
MAX_WINDOWS = 30
#: The strategies that are compared with frontier unless others are named.
RIVALS_OF_OURS = tuple(name for name in WHOLE if name != "frontier")
#: Rival -> the options that trade imbalance for bytes, one setting after another, with `--dials`.
DIALS: dict[str, tuple[dict[str, float], ...]] = {
    **{name: tuple({"sigma": s} for s in (0.02, 0.1, 0.5)) for name in ("scan", "redist", "readj")},
    "dkg": ({"theta": 0.01}, {"theta": 0.1}),
    **{name: tuple({"tau": t} for t in (0.02, 0.1, 0.3)) for name in ("sbk", "flux")},
    "mixed": tuple({"table": k, "theta": t} for k in (2, 50) for t in (0.02, 0.08, 0.3)),
    "kip": tuple({"excess": e} for e in (1, 2, 8)),
    "estore": ({"cold": True}, {"cold": False}),
}
#: Name of a row, and options of its rival.
Setting = tuple[str, dict[str, float]]


@dataclass(eq=False)
class Player:
    """A strategy on one stream, with the function that it made last, and its scores so far.

    Parameters
    ----------
    name : of the strategy
    even, moved : of each window: imbalance of the next one, and share of the load moved
    learned : imbalance of the newest function on the window that it was made from
    """

    name: str
    channels: Sequence[Channel]
    even: list[float] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)
    learned: float = 1.0
    function: PartitioningFunction | None = None

    def play(self, series: Series, window: Window, unseen: Window, **options: float) -> None:
        """Plan for a window, and score the function on the one after it."""
        before = self.function
        listed = None if before is None else before.explicit_keys
        profile = learn_window(series, window, len(self.channels), DEFAULT_SLOTS, listed)
        after = STRATEGIES[self.name](profile, before, self.channels, **options)
        if before is None:
            self.moved.append(0.0)
        else:
            gone = moved_shares(before, after, window.hashes)
            self.moved.append(float((window.load * gone).sum() / window.load.sum()))
        self.learned = imbalance_of(after, profile)
        self.even.append(imbalance(placed(after, unseen)[0], after.capacities))
        self.function = after

    @property
    def scores(self) -> tuple[float, float]:
        """Mean imbalance, and mean load moved; the first plan moves nothing, and does not count."""
        moved = self.moved[min(1, len(self.moved) - 1) :]
        return float(np.mean(self.even)), float(np.mean(moved))


def settings(rival: str, dials: bool) -> list[Setting]:
    """Return how a rival is played: by its defaults, or once for each setting of its dial."""
    if not dials or rival not in DIALS:
        return [(rival, {})]
    return [
        (" ".join([rival, *(f"{option}={value:g}" for option, value in options.items())]), options)
        for options in DIALS[rival]
    ]


def compared(
    series: Series, rival: str, count: int, **options: float
) -> tuple[float, float, float, float]:
    """Play a rival with its options, and frontier at its cost.

    Returns
    -------
    imbalance and load moved of the rival; imbalance of frontier at its bytes; load that frontier
    moves at its imbalance
    """
    channels = numbered_channels(count)
    theirs, at_bytes, at_even = (Player(n, channels) for n in (rival, "frontier", "frontier"))
    for window, unseen in pairwise(series.windows):
        theirs.play(series, window, unseen, **options)
        at_bytes.play(series, window, unseen, budget=theirs.moved[-1] * float(window.load.sum()))
        at_even.play(series, window, unseen, max_imbalance=max(1.0, theirs.learned))
    return (*theirs.scores, at_bytes.scores[0], at_even.scores[1])


def judged(less: float, error: float) -> str:
    """Return whether ours is better, level or worse by a paired difference."""
    if abs(less) <= error or less == 0:
        return "level"
    return "better" if less < 0 else "worse"


def line(name: str, rival: str, rows: Floats) -> tuple[str, str, str]:
    """Return a line of the board for rows (hashes, 4) of `compared`, and its two verdicts."""
    even, spared = (mean_and_error(rows[:, 2 + i] - rows[:, i]) for i in range(2))
    verdicts = judged(*even), judged(*spared)
    text = (
        f"{name:34}{rival:26}{rows[:, 0].mean():>10.4f}{rows[:, 1].mean():>9.2%}"
        f"{rows[:, 2].mean():>10.4f}{even[0]:>+9.4f} ±{even[1]:<7.4f}{verdicts[0]:7}"
        f"{rows[:, 3].mean():>9.2%}{spared[0]:>+9.2%} ±{spared[1]:<7.2%}{verdicts[1]}"
    )
    return text, *verdicts


HEADER = (
    f"{'set':34}{'rival':26}{'imbalance':>10}{'moved':>9}{'ours':>10}{'at its bytes: less':>25}"
    f"{'ours':>9}{'at its imbalance: less':>26}"
)


def board(
    sets: Sequence[DataSet],
    rivals: Sequence[str],
    channels: Sequence[int],
    hashes: int,
    most: int,
    *,
    dials: bool = False,
) -> Iterator[str]:
    """Yield the lines of the leaderboard."""
    yield HEADER
    counts = {rival: {"bytes": Counter[str](), "imbalance": Counter[str]()} for rival in rivals}
    for data in sets:
        try:
            series = data.series(most)
        except FileNotFoundError:
            yield f"{data.name}: left out, EVENKEEL_DATA lacks its file"
            continue
        own = [salted(series, salt) for salt in range(1, hashes + 1)]
        for count, rival in product(channels, rivals):
            for label, options in settings(rival, dials):
                rows = np.array([compared(s, rival, count, **options) for s in own])
                text, even, spared = line(f"{data.name}, N = {count}", label, rows)
                counts[rival]["bytes"][even] += 1
                counts[rival]["imbalance"][spared] += 1
                yield text
    for rival, found in counts.items():
        yield f"{rival:12}" + "; ".join(
            f"at its {at}: " + ", ".join(f"{w} {tally[w]}" for w in ("better", "level", "worse"))
            for at, tally in found.items()
        )


def main(argv: Sequence[str] | None = None) -> None:
    """Print a row for each set, number of channels and rival."""
    parser = argparse.ArgumentParser(prog="leaderboard", description=__doc__.split("\n")[0])
    parser.add_argument("--hashes", type=int, default=5, help="how often keys are salted, from 2")
    parser.add_argument("--channels", default="10", help="numbers of channels, as 10,20")
    parser.add_argument("--sets", default="", help="parts of names of sets, as words,zipf")
    parser.add_argument("--strategies", default=",".join(RIVALS_OF_OURS), help="names of rivals")
    parser.add_argument("--windows", type=int, default=MAX_WINDOWS, help="most windows of a set")
    parser.add_argument("--dials", action="store_true", help="play rivals at other settings, too")
    given = parser.parse_args(argv)
    rivals = given.strategies.split(",")
    if given.hashes < 2 or not set(rivals) <= set(RIVALS_OF_OURS):
        parser.error(
            f"expected 2 hashes or more, and strategies of {', '.join(RIVALS_OF_OURS)}; "
            f"got {given.hashes} and {given.strategies}"
        )
    sets = [s for s in SETS if any(part in s.name for part in given.sets.split(","))]
    counts = parse_channels(given.channels)
    for text in board(sets, rivals, counts, given.hashes, given.windows, dials=given.dials):
        print(text, flush=True)


if __name__ == "__main__":
    main()
