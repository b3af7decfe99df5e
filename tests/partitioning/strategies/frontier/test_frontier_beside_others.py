"""Frontier beside other strategies: none is more even at the same bytes."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.planning.own_bytes import CLOSE, compared, drawn, moved
from evenkeel.backtest.windows import read_series
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction, successor
from partitioning.function.hashing import key_hash, slot_of
from partitioning.strategies import SPLITTING, STRATEGIES, WHOLE
from partitioning.strategies.frontier.local_search import MIN_STEP_GAIN
from partitioning.strategies.frontier.pair_repack import MIN_STEPS, repack_pairs
from partitioning.strategies.frontier.problem import _squares, problem_of
from partitioning.strategies.frontier.strategy import frontier
from partitioning.strategies.frontier.tradeoff import trace, whole_path
from partitioning.strategies.hashing import consistent, uniform
from partitioning.strategies.published.gedik.constructions import scan
from partitioning.strategies.published.gedik.resources import delta
from partitioning.streams.zipf_stream import (
    KEY,
    PRESETS,
    hashed_keys,
    key_of_rank,
    rank_shares,
    zipf,
    zipf_profile,
)
from partitioning.workload.metrics import imbalance_of
from partitioning.workload.profile import profile_of_keys
from tests.support.planning.problems import Instance, problems
from tests.support.reached import must_reach, reach

DATA = Path(__file__).resolve().parents[5] / "shared" / "data"


#: What Gedik measures, and ours.
NAMES = ("uniform", "consistent", "scan", "redist", "readj", "frontier")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_gedik_stream_with_a_constant_per_key(seed):
    """LCL: computation is a constant a key, so the number of keys is to be even beside the load."""
    load, hashes = zipf(10**6, 1.0), hashed_keys(10**6, seed)
    function = None
    for count in range(1, 11):
        least = delta(1.2, 0.1, count, "LCL", len(load)) or 1.0
        known = None if function is None else function.explicit_keys
        profile = profile_of_keys(KEY, hashes, load, 4096, threshold=least, listed=known)
        before = function
        function = frontier(profile, before, numbered_channels(count), resources="LCL")
    owners = function.lookup_hashes(hashes)
    loads, keys = np.bincount(owners, load), np.bincount(owners)
    ratios = np.array([loads.max() / loads.min(), keys.max() / keys.min()]) / 1.2
    assert (ratios[0] ** 2 * ratios[1]) ** (1 / 3) <= 0.86
    assert load[before.lookup_hashes(hashes) != owners].sum() * 10 <= 1.3


@pytest.mark.parametrize("z", [0.4, 0.5])
def test_squares_of_unlisted_keys_are_seen_in_light_slots_and_in_heavy_ones(z):
    load, slots = zipf(200_000, z)[50:], slot_of(hashed_keys(200_000)[50:], 4096)
    squares, tail = (np.bincount(slots, values) for values in (load**2, load))
    found = _squares(tail, np.bincount(slots).astype(float))
    order = np.argsort(tail - np.bincount(slots) * load.mean())
    for part in np.array_split(order, 4):
        assert found[part].sum() == pytest.approx(squares[part].sum(), rel=0.13)


@pytest.mark.slow
@pytest.mark.parametrize("z", [0.25, 0.4, 0.5])
def test_gedik_stream_with_a_square_per_key_is_below_every_other(z):
    """LQL: what a large key costs that no profile lists is seen from what its slot weighs. On few
    channels the others are as good as their hashes: means of several."""
    load, b = zipf(200_000, z), {}
    for seed, name in itertools.product(range(4), NAMES):
        function, hashes = None, hashed_keys(200_000, seed)
        options = {} if name in ("uniform", "consistent") else {"resources": "LQL"}
        for count in range(1, 11 if seed == 0 else 5):
            least = delta(1.2, 0.1, count, "LQL", len(load)) or 1.0
            known = None if function is None else function.explicit_keys
            profile = profile_of_keys(KEY, hashes, load, 4096, threshold=least, listed=known)
            function = STRATEGIES[name](profile, function, numbered_channels(count), **options)
            owners = function.lookup_hashes(hashes)
            loads, squares = (np.bincount(owners, cost) for cost in (load, load**2))
            ratios = np.array([loads.max() / loads.min(), squares.max() / squares.min()]) / 1.2
            b.setdefault((name, count), []).append((ratios[0] ** 2 * ratios[1]) ** (1 / 3))
    for count in range(2, 11):
        means = {name: np.mean(b[name, count]) for name in NAMES}
        assert min(means, key=means.get) == "frontier" and means["frontier"] < 0.89, (count, means)


@pytest.mark.parametrize("z", [0.5, 1.0, 1.2])
@pytest.mark.parametrize("row_bytes", [None, 100.0], ids=["linear state", "one row a key"])
@pytest.mark.parametrize(("before", "now"), [(5, 6), (10, 10), (12, 10), (20, 21)])
def test_at_the_same_bytes_no_other_is_more_even(z, row_bytes, before, now):
    profile = zipf_profile(20_000, z, slots=1024, threshold=0.001, row_bytes=row_bytes)
    for start in (consistent, uniform):
        previous = start(profile, None, numbered_channels(before))
        found = compared(profile, previous, numbered_channels(now), WHOLE)
        assert max(found.values()) <= CLOSE, found


@settings(deadline=None, max_examples=5, derandomize=True)
@given(st.integers(0, 10_000))
@example(80)  # heavy keys that cost few bytes beside ones that cost many
@example(91)  # no key of over 1/32 of a channel
def test_on_random_profiles_no_other_is_more_even_at_its_own_bytes(seed):
    found = compared(*drawn(seed, "specs' sizes"))
    assert max(found.values()) <= CLOSE, found


@pytest.mark.parametrize("seed", [23, 67, 81])
def test_of_few_items_no_other_is_more_even_at_its_own_bytes(seed):
    """Of 200 profiles those where others packed the better the more."""
    found = compared(*drawn(seed, "few items"))
    assert max(found.values()) <= CLOSE, found


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9), st.integers(-1, 1)), max_size=9),
    st.sampled_from([1.0, 3.0]),
    st.integers(0, 40),
)
def test_two_channels_share_their_items_as_well_as_any(items, capacity, budget):
    load, size, home = np.array(items, np.float64).reshape(-1, 3).T
    fair, home = np.array([1.0, capacity]), home.astype(np.int32)
    charged, at = size * (home >= 0), np.maximum(home, 0)  # what is nowhere is free to put
    found = repack_pairs(load, charged, home, at, fair, np.arange(len(load)), budget, 0.0)

    def worst(at):
        return (np.bincount(at, load, minlength=2) / fair).max()

    ways = map(np.array, itertools.product([0, 1], repeat=len(load)))
    best = min(worst(w.astype(int)) for w in ways if charged[w != home].sum() <= budget)
    assert charged[found != home].sum() <= budget
    # As well as whole steps of load, rounded, tell.
    assert (
        best
        <= worst(found)
        <= best + len(load) * load.sum() / MIN_STEPS + worst(at) * MIN_STEP_GAIN
    )


@pytest.mark.parametrize("start", ["dalton", "flexd", "pkg"])
@pytest.mark.parametrize(("before", "now"), [(10, 10), (18, 5), (10, 18)])
def test_from_split_keys_no_other_is_more_even_at_its_own_bytes(start, before, now):
    """Loads have drifted since. To weigh a split key's owners anew moves nothing."""
    load, keys = zipf(3000, 1.2), hashed_keys(3000)
    random = np.random.default_rng(before * now)
    state = random.lognormal(0, 1, 3000)
    then, drifted = (
        profile_of_keys(KEY, keys, now, 1024, state=state, threshold=0.005)
        for now in (load, load * random.lognormal(0, 0.5, 3000))
    )
    previous = STRATEGIES[start](then, None, numbered_channels(before))
    assert len(previous.split)
    found = compared(drifted, previous, numbered_channels(now), SPLITTING)
    assert max(found.values()) <= CLOSE, found


@pytest.mark.parametrize("row_bytes", [None, 100.0], ids=["linear state", "one row a key"])
def test_bytes_for_a_target_are_near_the_bound(row_bytes):
    profile = zipf_profile(20_000, 0.8, threshold=0.001, row_bytes=row_bytes)
    previous = consistent(profile, None, numbered_channels(10))
    curve = trace(profile, previous, numbered_channels(10))
    function = frontier(profile, previous, numbered_channels(10), max_imbalance=1.05)
    least = np.interp(-1.05, -curve.bound_imbalance, curve.bound_bytes)
    assert imbalance_of(function, profile) <= 1.05
    slot = profile.bytes.mean()
    assert moved(profile, previous, function) <= 1.1 * least + 2 * slot


@pytest.mark.parametrize("seed", range(2))
def test_gedik_default_stream(seed):
    """|D| = 1e6, z = 1, alpha = 1.2, N one by one from 1 to 10, all three resources linear."""
    load, hashes = zipf(10**6, 1.0), hashed_keys(10**6, seed)
    function, migrations = None, []
    for count in range(1, 11):
        tracked = delta(1.2, 0.1, count, "LLL", len(load))
        profile = profile_of_keys(KEY, hashes, load, 4096, threshold=tracked or 1.0)
        before, function = function, frontier(profile, function, numbered_channels(count))
        owners = function.lookup_hashes(hashes)
        loads = np.bincount(owners, load, minlength=count)
        assert loads.max() / loads.min() / 1.2 <= 0.84
        if before is not None:
            migrations.append(load[before.lookup_hashes(hashes) != owners].sum() * count)
    assert max(migrations) <= 1.0


@must_reach("a step")
@given(problems(same_channels=True))
def test_every_prefix_of_the_steps_is_no_worse_than_the_start(problem):
    # A swap is one step: half of it alone can be worse, and is no point of the curve.
    path = whole_path(problem_of(problem.profile, problem.previous, problem.channels))
    start = problem.imbalance(problem.previous)
    for step in range(len(path.moves)):
        reach("a step")
        at = path.at(step)
        heavy = path_keys(problem, at)
        function = successor(
            KEY,
            problem.previous,
            problem.channels,
            at[: problem.profile.slots],
            "prefix",
            {},
            heavy,
        )
        assert problem.imbalance(function) <= start * (1 + 1e-9)


def path_keys(problem: Instance, at: np.ndarray) -> dict[int, int]:
    """Heavy keys -> channels, of a state of the search (slot tails first, then listed keys)."""
    listed = problem.profile.listing(problem.previous.explicit_keys).heavy.tolist()
    return dict(zip(listed, at[problem.profile.slots :].tolist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "key", "cut"),
    [
        ("novel_words", "word", {"rows": 100_000, "limit": 300_000}),
        ("online_retail", "StockCode", {"time": "InvoiceDate", "every": "1w", "limit": 60_000}),
    ],
)
def test_on_real_data_no_other_is_more_even_at_its_own_bytes(file, key, cut):
    path = DATA / f"{file}.parquet"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    series = read_series(str(path), [key], **cut)
    previous = None
    for window in series.windows[:3]:
        previous = next_is_no_less_even(series.key, window.hashes, window.load, previous)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_on_made_up_streams_no_other_is_more_even_at_its_own_bytes(preset):
    stream, previous = PRESETS[preset], None
    random = np.random.default_rng(stream.seed)
    for number, load in enumerate(rank_shares(stream)[:4]):
        keys = key_of_rank(stream, np.arange(stream.keys), number)
        if stream.hot and number >= stream.hot[0]:
            load = load * (1 - stream.hot[1]) + (keys == stream.hot_key) * stream.hot[1]
        if stream.vanish and number >= stream.vanish:
            load = load * (keys != stream.vanished_key)
        came = random.poisson(load * stream.rows).astype(float)
        previous = next_is_no_less_even(KEY, key_hash([keys], ["bigint"]), came, previous)


def next_is_no_less_even(key, hashes, load, previous) -> PartitioningFunction:
    known = None if previous is None else previous.explicit_keys
    least = 0.001 * float(load.sum())
    profile = profile_of_keys(key, hashes, load, 4096, threshold=least, listed=known)
    if previous is None:  # a preset of one window: from hashing
        previous = uniform(profile, None, numbered_channels(10))
    found = compared(profile, previous, numbered_channels(10))
    assert max(found.values()) <= CLOSE, found
    return scan(profile, previous, numbered_channels(10))
