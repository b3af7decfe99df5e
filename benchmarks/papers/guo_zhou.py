"""Measure variance of load and state moved of ELB, CLB, UHLB and PKG (Guo and Zhou).

The source is Table 1 and Figs. 3 and 4. The paper's two hours of tweets cannot be had. The
substitute is the generator's preset guo-zhou, row for row what `evenkeel_spark.jobs.generate`
writes of it.
It has 100 substreams and 120 windows of a minute with 6,100 tuples (10.6M tweets in 29 hours).
Shares follow Zipf's law and wander as exp of an AR(1) process. Its step is set so that ELB moves
about what it did; all else follows.

There are 10 channels. State is as large as load; PKG's is assumed to move with its shares. Variance
is that of the next, unseen window. Beside it stands that of the window learned: in all windows, and
in those in which no substream alone is over a channel's fair share ("fits").

Figures are means over streams of so many seeds, and "se" is the standard error of the column before
it. Every strategy meets the same streams, so what one has over ELB has the error of the paired
difference.

State moved has the paper's order. So has variance except for UHLB, on either window: the better of
two random hashes leaves the heavy substreams where chance puts them. The paper says neither how
often UHLB draws nor on which window it is measured.

    python -m benchmarks.papers.guo_zhou [seeds]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.papers.gedik_2014.gedik_words import error, ratio
from partitioning.function.channels import numbered_channels
from partitioning.strategies import STRATEGIES
from partitioning.streams.zipf_stream import KEY, PRESETS, keys_of_window
from partitioning.workload.metrics import channel_loads, moved_shares
from partitioning.workload.profile import Floats, Profile, profile_of_keys

STREAM, CHANNELS, PERIOD = PRESETS["guo-zhou"], 10, 24
#: One new hash a window; more move all the state for little.
OPTIONS: dict[str, dict[str, Any]] = {"clb": {"period": PERIOD}, "uhlb": {"draws": 1}}
#: (variance of load with its deviation over the windows, share of state moved a window): Table 1
#: and section 5.1.
PUBLISHED = {
    "uhlb": ("2.9e4 (770)", "24.2%"),
    "pkg": ("3.1e4 (1019)", "21.2%"),
    "elb": ("5.1e4 (1807)", "14.5%"),
    "clb": ("6.1e4 (5134)", "1.6%, 48.4% each time"),
}
NAMES = ("uniform", *PUBLISHED, "frontier")


def histograms(seed: int) -> list[Profile]:
    """Return the tuples of each substream, which is a key and a slot, in each window."""
    stream, substreams = replace(STREAM, seed=seed), np.arange(STREAM.keys)
    profiles = []
    for window in range(stream.windows):
        load = np.bincount(keys_of_window(stream, window), minlength=stream.keys).astype(float)
        profiles.append(profile_of_keys(KEY, substreams, load, stream.keys))
    return profiles


@dataclass(frozen=True, eq=False)
class Course:
    """Results of each window after the first, float64 (windows - 1,).

    They are: variance of load in the next window and in the learned one, whether no substream of
    the learned one is over a fair share, and state moved.
    """

    following: Floats
    learned: Floats
    fits: npt.NDArray[np.bool_]
    moved: Floats

    def row(self) -> tuple[float, ...]:
        """Return means of the course for one row of the table.

        They are of `following`, its standard deviation over the windows, of `learned`, of that
        where it fits, of `moved`, and of that where it is not 0.
        """
        fits, acted = self.learned[self.fits], self.moved[self.moved > 0]
        means = [
            float(x.mean()) if len(x) else 0.0 for x in (self.learned, fits, self.moved, acted)
        ]
        return float(self.following.mean()), float(self.following.std()), *means


def measure(
    name: str,
    profiles: Sequence[Profile],
    count: int = CHANNELS,
    options: Mapping[str, Any] | None = None,
) -> Course:
    """Measure a strategy window by window, on so many channels."""
    given = OPTIONS.get(name, {}) if options is None else options
    channels, rows = numbered_channels(count), []
    previous = STRATEGIES[name](profiles[0], None, channels, **given)
    for profile in profiles[1:]:
        function = STRATEGIES[name](profile, previous, channels, **given)
        shares = moved_shares(previous, function, profile.heavy)
        total = profile.load.sum()
        rows.append(
            (
                channel_loads(previous, profile).var(),
                channel_loads(function, profile).var(),
                profile.load.max() * count <= total,
                (shares * profile.heavy_load).sum() / total,
            )
        )
        previous = function
    following, learned, fits, moved = np.array(rows, dtype=float).T
    return Course(following, learned, fits > 0, moved)


def over_time(runs: Sequence[Sequence[Course]]) -> None:
    """Print Figs. 3 and 4, whose values are not printed, by the 5 periods of CLB."""
    for told, figure, field, kind in (
        ("variance of the next window", 3, "following", ".1e"),
        ("state moved a window", 4, "moved", ".1%"),
    ):
        print(f"\n{told} over time, means of {PERIOD} windows (Fig. {figure})")
        for name, courses in zip(NAMES, runs, strict=True):
            each = np.mean([getattr(course, field) for course in courses], axis=0)
            spans = [each[at : at + PERIOD].mean() for at in range(0, len(each), PERIOD)]
            print(f"{name:12}" + "".join(f"{v:>10{kind}}" for v in spans))


def over_elb(rows: Mapping[str, Floats]) -> None:
    """Print what each strategy has over ELB, from its rows of each run, float64 (runs, 6)."""
    print("\nover elb, paired by run: variance of the next window, state moved a window")
    for name in NAMES:
        if name != "elb":
            pairs = (ratio(rows[name][:, at], rows["elb"][:, at]) for at in (0, 4))
            cells = (f"{f'{value:+.0%} ± {se:.0%}':>16}" for value, se in pairs)
            print(f"{name:12}{''.join(cells)}")


def main(seeds: int = 16) -> None:
    print(
        f"{STREAM.keys} substreams, {CHANNELS} channels, {STREAM.windows} windows, "
        f"mean of {seeds} runs"
    )
    print(f"{'variance of':12}{'next':>10}{'se':>9}{'(std)':>10}{'learned':>10}{'fits':>10}"
          f"{'moved a window':>16}{'se':>6}{'when it moves':>15}   paper")  # fmt: skip
    streams = [histograms(seed) for seed in range(seeds)]
    runs = [[measure(name, stream) for stream in streams] for name in NAMES]
    rows = {
        name: np.array([course.row() for course in courses])
        for name, courses in zip(NAMES, runs, strict=True)
    }
    for name, each in rows.items():
        following, deviation, learned, fits, moved, acted = each.mean(axis=0)
        paper = ", ".join(PUBLISHED.get(name, ("-",)))
        spread = f"({deviation:.1e})"
        print(f"{name:12}{following:>10.1e}{error(each[:, 0]):>9.0e}{spread:>10}{learned:>10.1e}"
              f"{fits:>10.1e}{moved:>16.1%}{error(each[:, 4]):>6.1%}{acted:>15.1%}"
              f"   {paper}", flush=True)  # fmt: skip
    over_elb(rows)
    over_time(runs)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
