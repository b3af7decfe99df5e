"""Measure CLB on streams whose keys follow a Gaussian and a Zipf law (Guo and Zhou, Fig. 2).

The paper describes the streams so: 100 keys, each a substream; a Poisson process with lambda =
10,000; 120 windows of a minute. The two laws have equal means, and the Zipf law's histogram has the
larger variance. The paper gives neither z, nor the Gaussian's deviation, nor lambda's unit. We
chose:

- lambda is per second, so a window has 600,000 tuples, and each substream is a Poisson count of its
  own. With any longer unit the reported variance could not be reached with all tuples on one
  channel. With a shorter one, a thousandth, it would be nearly zero.
- z = 0.5, as in the preset guo-zhou. The Gaussian, cut to 1 to 100, has the Zipf law's mean key and
  a deviation of 30. Both are swept, too.
- The paper does not say how keys are numbered. Numbers decide where substreams begin, and which
  of equal ones comes first. Keys are shown in the order of the law, and in random orders.
- The variance is that of the next window. CLB balances after each window (1/f = 1), from the last
  two.

    python -m benchmarks.papers.rivetti.gauss_zipf [windows]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import numpy as np

from benchmarks.papers.guo_zhou import NAMES, OPTIONS, measure
from partitioning.streams.zipf_stream import KEY, zipf
from partitioning.workload.profile import Floats, Profile, profile_of_keys

SUBSTREAMS, ROWS, CHANNELS = 100, 600_000, (5, 10, 15)
SKEW, SKEWS = 0.5, (0.25, 0.5, 1.0, 1.5)
DEVIATION, DEVIATIONS = 30.0, (10.0, 20.0, 30.0, 50.0)
EAGER = {"period": 1}
PUBLISHED = {"Gauss": "2.08983e10 (6.8e8)", "Zipf": "2.08325e10 (7.9e8)"}


def gauss(deviation: float, mean: float) -> Floats:
    """Return the share of each of the keys 1 to 100, float64 (100,), for a Gaussian with this mean.

    Its density is cut to these keys, and centred so that their mean is the requested one.
    ValueError if no centre from -100 to 200 gives it.
    """
    keys = np.arange(1, SUBSTREAMS + 1)

    def shares(centre: float) -> Floats:
        density: Floats = np.exp(-(((keys - centre) / deviation) ** 2) / 2)
        return density / density.sum()

    low, high = -100.0, 200.0
    for _ in range(60):  # the mean rises with the centre
        centre = (low + high) / 2
        low, high = (centre, high) if shares(centre) @ keys < mean else (low, centre)
    if abs(shares(low) @ keys - mean) > 0.01:
        raise ValueError(f"no centre gives deviation {deviation} the mean {mean}")
    return shares(low)


def mean_key(shares: Floats) -> float:
    """Return the mean key of the keys 1 to 100."""
    return float(shares @ np.arange(1, SUBSTREAMS + 1))


def histograms(shares: Floats, windows: int, seed: int = 0) -> list[Profile]:
    """Draw each substream's tuples in each window: independent Poisson counts."""
    random, keys = np.random.default_rng(seed), np.arange(SUBSTREAMS)
    counts = random.poisson(ROWS * shares, (windows, SUBSTREAMS)).astype(float)
    return [profile_of_keys(KEY, keys, load, SUBSTREAMS) for load in counts]


def laws() -> dict[str, Floats]:
    """Return the two streams' shares, by name."""
    return {"Gauss": gauss(DEVIATION, mean_key(zipf(SUBSTREAMS, SKEW))),
            "Zipf": zipf(SUBSTREAMS, SKEW)}  # fmt: skip


def told(shares: Floats, windows: int, count: int = 10) -> str:
    """Format CLB's variance, with its deviation over the windows."""
    mean, deviation, *_ = measure("clb", histograms(shares, windows), count, EAGER).row()
    return f"{mean:.2e} ({deviation:.1e})"


def clb(streams: Mapping[str, Floats], windows: int) -> None:
    print(f"variance of load of CLB, 1/f = 1, mean (std) over {windows} windows (Fig. 2)")
    print(f"{'':10}{'mean key':>10}{'of keys':>10}" + "".join(f"{f'n = {n}':>20}" for n in CHANNELS)
          + "   paper, n = 10")  # fmt: skip
    for name, shares in streams.items():
        cells = "".join(f"{told(shares, windows, n):>20}" for n in CHANNELS)
        print(f"{name:10}{mean_key(shares):>10.1f}{(ROWS * shares).var():>10.1e}{cells}"
              f"   {PUBLISHED[name]}")  # fmt: skip
    everything = np.zeros(CHANNELS[1])
    everything[0] = ROWS
    print(f"all tuples on one of 10 channels: {everything.var():.2e}")


def at_random(streams: Mapping[str, Floats], windows: int, orders: int) -> None:
    """Print CLB's variance with the keys in random order: mean and standard error over orders."""
    print(f"\nthe same, n = 10, keys in random order: mean ± standard error of {orders} orders")
    means = {}
    for name, shares in streams.items():
        each = [
            measure("clb", histograms(random.permutation(shares), windows), 10, EAGER).row()[0]
            for random in map(np.random.default_rng, range(orders))
        ]
        means[name] = np.array(each)
        error = means[name].std(ddof=1) / np.sqrt(orders)
        print(f"  {name:6}{means[name].mean():>10.2e} ± {error:.1e}")
    ratio = means["Gauss"].mean() / means["Zipf"].mean() - 1
    paired = means["Gauss"] - (1 + ratio) * means["Zipf"]
    error = paired.std(ddof=1) / np.sqrt(orders) / means["Zipf"].mean()
    print(f"  Gauss over Zipf {ratio:+.0%} ± {error:.0%}   paper +0%")


def sweeps(windows: int) -> None:
    print("\nthe same, n = 10, over what the paper does not give")
    for z in SKEWS:
        shares = zipf(SUBSTREAMS, z)
        print(f"  Zipf, z = {z:<14g}{told(shares, windows):>20}")
    mean = mean_key(zipf(SUBSTREAMS, SKEW))
    for deviation in DEVIATIONS:
        print(f"  Gauss, deviation {deviation:<7g}{told(gauss(deviation, mean), windows):>20}")


def others(streams: Mapping[str, Floats], windows: int) -> None:
    print("\nevery algorithm, n = 10: variance (std), state moved a window")
    print(f"{'':12}" + "".join(f"{name:>28}" for name in streams))
    for name in NAMES:
        options = EAGER if name == "clb" else OPTIONS.get(name, {})
        cells = ""
        for shares in streams.values():
            mean, deviation, _, _, moved, _ = measure(
                name, histograms(shares, windows), 10, options
            ).row()
            cells += f"{mean:>12.1e}{f'({deviation:.1e})':>10}{moved:>6.1%}"
        print(f"{name:12}{cells}", flush=True)


def main(windows: int = 120) -> None:
    streams = laws()
    clb(streams, windows)
    at_random(streams, windows, max(2, windows // 8))
    sweeps(windows)
    others(streams, windows)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
