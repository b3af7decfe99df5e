"""dkg against a plain reading of the paper's listings, and its bounds."""

import itertools

import numpy as np
import pytest

from benchmarks.papers.rivetti.rivetti import rivetti_lambda
from partitioning.errors import InputError
from partitioning.function.channels import Channel, numbered_channels
from partitioning.strategies.published.dkg import (
    PRIME,
    dkg,
    dkg_wosim,
    draw_hash,
    schedule,
    two_universal,
)
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf_profile
from partitioning.workload.metrics import channel_loads, imbalance
from partitioning.workload.profile import profile_of_keys


@pytest.mark.parametrize("seed", range(5))
def test_same_as_the_listings_read_line_by_line(seed):
    random = np.random.default_rng(seed)
    hashes, load = hashed_keys(300, seed), random.lognormal(0, 2, 300)
    profile = profile_of_keys(KEY, hashes, load, 64)
    function = dkg(profile, None, numbered_channels(5), theta=0.02, mu=3, seed=seed)
    a, b = draw_hash(np.random.default_rng(seed))
    buckets: dict[object, float] = dict.fromkeys(range(15), 0.0)

    def bucket(h):
        return (a * (int(h) % 64) + b) % PRIME % 15

    for h, x in zip(hashes, load, strict=True):
        buckets[bucket(h)] += x
    for h, x in zip(hashes, load, strict=True):
        if x >= 0.02 * load.sum():
            buckets[bucket(h)] -= x
            buckets[f"key {h}"] = x
    loads, owner = [0.0] * 5, {}
    for name in sorted(buckets, key=lambda n: -buckets[n]):
        owner[name] = loads.index(min(loads))
        loads[owner[name]] += buckets[name]
    expected = [owner.get(f"key {h}", owner[bucket(h)]) for h in hashes]
    assert function.lookup_hashes(hashes).tolist() == expected
    assert 0 < len(function.explicit_keys) < 30


def test_schedule_is_within_its_bound_of_the_best():
    """(4/3 - 1/3k) of the optimum (section 3.1), here found by trying all."""
    random = np.random.default_rng(1)
    for _ in range(30):
        load, k = random.lognormal(0, 1, 7), int(random.integers(2, 4))
        best = min(
            max(load[np.array(at) == c].sum() for c in range(k))
            for at in itertools.product(range(k), repeat=7)
        )
        loads = np.bincount(schedule(load, np.ones(k)), load, minlength=k)
        assert best - 1e-9 <= loads.max() <= (4 / 3 - 1 / (3 * k)) * best + 1e-9


def test_schedule_follows_capacity_and_skips_closed():
    load = np.ones(60)
    assert np.bincount(schedule(load, np.array([1.0, 0, 2, 3]))).tolist() == [10, 0, 20, 30]
    assert np.bincount(schedule(np.zeros(9), np.ones(3))).tolist() == [3, 3, 3]


def test_hash_is_a_family_that_rarely_collides():
    """2-universal: over the family two numbers share one of 20 buckets 1 time in 20."""
    random = np.random.default_rng(0)
    shared = [
        np.diff(two_universal(np.array([3, 1777]), *draw_hash(random)) % 20)[0] for _ in range(4000)
    ]
    assert np.mean(np.array(shared) == 0) == pytest.approx(1 / 20, abs=0.012)


def test_zipf_2_is_optimal_and_better_than_a_hash():
    """Case 1 of Theorem 4.2: with the heaviest key over the mean, its channel has nothing else."""
    profile = zipf_profile(10_000, 2.0, threshold=1e-4)
    for k in (2, 4, 8):
        loads = channel_loads(dkg(profile, None, numbered_channels(k)), profile)
        heaviest = profile.heavy_load.max()
        assert rivetti_lambda(loads) == pytest.approx(100 * (k * heaviest - 1), abs=0.1)


@pytest.mark.parametrize(
    ("z", "theta", "mu", "heavy"),
    [
        (1.0, 0.05, 20, 2), (1.0, 0.02, 50, 5), (0.5, 0.125, 8, 0), (1.0, 0.125, 8, 0),
        (1.0, 0.1, 2, 1), (0.5, 0.1, 2, 0),
    ],
)  # fmt: skip
def test_where_no_key_is_over_the_mean_the_mean_error_is_within_its_bound(z, theta, mu, heavy):
    """Cases 2 and 3 of Theorem 4.2, with theta at most 1/k: by the proof's own bounds, and with mu
    at least 1/theta by the theorem's, and, as "(1 + theta)-optimal" may be read, by theta alone.
    The last two are the experiments' theta and mu."""
    profile, k = zipf_profile(10_000, z, threshold=1e-3), 8
    share = profile.heavy_load[profile.heavy_load >= theta]
    assert len(share) == heavy and profile.heavy_load.max() <= 1 / k
    found = []
    for seed in range(30):
        function = dkg(profile, None, numbered_channels(k), theta=theta, mu=mu, seed=seed)
        found.append(rivetti_lambda(channel_loads(function, profile)) / 100)
    sparse = 1 - float(share.sum())
    bound = (mu + 1) / mu * sparse if heavy else 1 / mu + k * theta
    # The best mapping's lambda is at least 0.
    assert 0 < np.mean(found) <= bound
    if mu * theta >= 1:
        assert np.mean(found) <= theta < bound <= 1 + theta + 1e-9


@pytest.mark.parametrize("z", [0.5, 1.0])
def test_more_buckets_are_more_even(z):
    profile = zipf_profile(10_000, z, threshold=1e-4)
    few, many = (
        np.mean(
            [
                imbalance(
                    channel_loads(dkg(profile, None, numbered_channels(4), mu=mu, seed=s), profile),
                    np.ones(4),
                )
                for s in range(10)
            ]
        )
        for mu in (1, 8)
    )
    assert many < few


def test_without_the_sparse_items_mapping_they_are_hashed_straight_to_channels():
    """Fig. 13's WOSIM: h of co-domain k for sparse items, LPT of the heavy keys alone."""
    profile = zipf_profile(10_000, 1.5, slots=64, threshold=1e-4)
    channels = (Channel("a"), Channel("closed", 0.0), Channel("b"), Channel("c"))
    function = dkg_wosim(profile, None, channels, theta=0.05, seed=3)
    a, b = draw_hash(np.random.default_rng(3))
    assert function.slots.tolist() == [[0, 2, 3][(a * s + b) % PRIME % 3] for s in range(64)]
    heavy = profile.heavy_load >= 0.05 * profile.load.sum()
    assert 2 < heavy.sum() < 10
    alone = schedule(profile.heavy_load[heavy], np.array([1.0, 0, 1, 1]))
    assert function.lookup_hashes(profile.heavy[heavy]).tolist() == alone.tolist()


@pytest.mark.parametrize("z", [0.5, 1.0])
def test_mapping_the_sparse_items_is_more_even_than_hashing_them(z):
    """Fig. 13: dkg is below WOSIM for all skews tested."""
    profile, channels = zipf_profile(10_000, z, threshold=1e-4), numbered_channels(10)
    with_them, without = (
        np.mean(
            [
                rivetti_lambda(channel_loads(f(profile, None, channels, seed=seed), profile))
                for seed in range(10)
            ]
        )
        for f in (dkg, dkg_wosim)
    )
    assert with_them < 0.8 * without


@pytest.mark.parametrize(
    ("option", "value"), [("theta", 0.0), ("theta", 1.5), ("mu", 0), ("seed", -1)]
)
def test_bad_options_are_refused(option, value):
    with pytest.raises(InputError, match=option):
        dkg(zipf_profile(10, 1.0), None, (Channel("a"),), **{option: value})
