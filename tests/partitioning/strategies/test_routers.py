"""Routers against the algorithms tuple by tuple, and the shares that functions take from them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partitioning.errors import InputError
from partitioning.function.channels import Channel, numbered_channels
from partitioning.planning.plan import make_plan
from partitioning.strategies import ROUTERS, STRATEGIES
from partitioning.strategies.hashing import in_turn, uniform
from partitioning.strategies.published.choices import choices_needed
from partitioning.strategies.published.flexd import flexd
from partitioning.strategies.published.flexd_routers import DaltonRouter
from partitioning.strategies.water_filling import candidates, fill, pour, settled_loads
from partitioning.streams.zipf_stream import KEY, hashed_keys, zipf, zipf_profile
from partitioning.workload.metrics import channel_loads, imbalance
from partitioning.workload.profile import profile_of_keys


def stream(z, keys=300, rows=4000, seed=0):
    return np.random.default_rng(seed).choice(keys, rows, p=zipf(keys, z))


def counts(routed):
    pairs = zip(routed.key.tolist(), routed.channel.tolist(), strict=True)
    return dict(zip(pairs, routed.rows.tolist(), strict=True))


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), st.integers(0, 60), st.data())
def test_fill_is_one_tuple_after_another(levels, count, data):
    # Steps that whole numbers of keep exact: capacities 1, 1/2 and 1/4.
    steps = [data.draw(st.sampled_from([1.0, 2.0, 4.0])) for _ in levels]
    got, now = [0] * len(levels), [float(x) for x in levels]
    for _ in range(count):
        at = now.index(min(now))
        got[at] += 1
        now[at] += steps[at]
    assert fill(np.array(levels, float), np.array(steps), count).tolist() == got


@given(st.lists(st.floats(0, 20), min_size=1, max_size=8), st.floats(0.01, 60), st.data())
def test_pour_levels_what_it_covers(levels, load, data):
    low = np.array(levels)
    width = np.array([data.draw(st.sampled_from([0.5, 1.0, 3.0])) for _ in levels])
    got = pour(low, width, load)
    after = low + got / width
    assert got.sum() == pytest.approx(load)
    assert after[got > 0] == pytest.approx(after[got > 0].max())
    assert (after[got == 0] >= after[got > 0].max() - 1e-9).all()


def test_settled_keys_have_no_lower_candidate():
    rng = np.random.default_rng(1)
    loads, resting = rng.lognormal(0, 1.5, 40), rng.random(12)
    capacities = np.array([1.0, 2.0, 0.5] * 4)
    choices = [rng.choice(12, 3, replace=False) for _ in loads]
    shares = settled_loads(loads, choices, resting, capacities)
    levels = resting / capacities
    for c, s in zip(choices, shares, strict=True):
        levels[c] += s / capacities[c]
    for load, c, s in zip(loads, choices, shares, strict=True):
        assert s.sum() == pytest.approx(load)
        assert levels[c][s > 1e-9 * load].max() <= levels[c].min() * (1 + 1e-3)


def literal(name, keys, hashes, count, variant=False):
    """The papers' loops over tuples: how many of each key on each of `count` channels.

    The variant of FlexD counts as it runs; Dalton's has no cap."""
    segment = np.bincount(keys).tolist()
    sent, loads, seen = {}, [0] * count, {}
    choices = candidates(hashes, count, np.arange(count)).tolist()
    home = in_turn(4096, np.ones(count))[np.mod(hashes, 4096)].tolist()
    theta, rows = 0.2 / count, len(keys)
    owners, grows, counters, turn, falls = {}, {}, {}, 0, 0.0
    values, coins, full, most = {}, np.random.default_rng(0), set(), 2
    for total, key in enumerate(keys.tolist(), 1):
        seen[key] = seen.get(key, 0) + 1
        hot = seen[key] >= theta * total
        if name == "pkg" or (name in ("dchoices", "wchoices") and not hot):
            at = min(choices[key][:2], key=loads.__getitem__)
        elif name == "dchoices":
            shares = sorted((n / total for n in seen.values() if n >= theta * total), reverse=True)
            d = choices_needed(np.array(shares), count)
            tried = choices[key][:d] if d < count else range(count)
            at = min(tried, key=loads.__getitem__)
        elif name == "wchoices":
            at = loads.index(min(loads))
        elif name == "flexd" and (seen if variant else segment)[key] >= theta * rows:
            mine, frequency = owners.setdefault(key, []), (seen if variant else segment)[key]
            if frequency >= grows.get(key, theta * rows) and len(mine) < count:
                mine.append(min((c for c in range(count) if c not in mine), key=loads.__getitem__))
                grows[key] = grows.get(key, theta * rows) * 1.5
            at = min(sorted(mine), key=loads.__getitem__)
        elif name == "pstream":
            counters[key] = counters.get(key, 0) + coins.binomial(1, 1 / 32)
            falls += theta / 32
            if math.floor(falls) > math.floor(falls - theta / 32):
                counters = {k: max(n - 1, 0) for k, n in counters.items()}
            at, turn = (turn, (turn + 1) % count) if counters[key] >= 2 else (home[key], turn)
        elif name == "dalton" and hot:
            value = values.setdefault(key, [-2.0] * count)
            best = home[key] if value[home[key]] == max(value) else value.index(max(value))
            held = owners.setdefault(key, set())
            among = sorted(held) if key in full else range(count)
            at = among[coins.integers(len(among))] if coins.binomial(1, 0.1) else best
            held.add(at)
            if len(held) == most and not variant:
                full.add(key)
            if len(full) >= 0.7 * len(values) and most < 6:
                full, most = set(), most + 1
            now, mean = loads[at] + 1, total / count
            reward = -0.5 * (now - mean) / max(now, mean) - 0.5 * len(held) / count
            value[at] = 0.9 * value[at] + 0.1 * reward
        else:
            at = home[key]
        loads[at] += 1
        sent[key, at] = sent.get((key, at), 0) + 1
    return sent


@pytest.mark.parametrize("name", ROUTERS)
@pytest.mark.parametrize("z", [0.5, 1.2, 2.5])
def test_router_of_single_tuples_is_the_algorithm(name, z):
    # Few enough keys for Space Saving to be exact; theta is a whole number of the rows.
    keys, hashes = stream(z, keys=40), hashed_keys(40, 3)
    routed = ROUTERS[name](hashes, numbered_channels(5), batch=1).route(keys)
    assert counts(routed) == literal(name, keys, hashes, 5)


@pytest.mark.parametrize(("name", "option"), [("flexd", "running"), ("dalton", "capped")])
@pytest.mark.parametrize("z", [0.5, 1.2, 2.5])
def test_variants_of_routers_are_the_algorithm_too(name, option, z):
    keys, hashes = stream(z, keys=40), hashed_keys(40, 3)
    given = {option: option == "running"}
    routed = ROUTERS[name](hashes, numbered_channels(9), batch=1, **given).route(keys)
    assert counts(routed) == literal(name, keys, hashes, 9, variant=True)
    default = ROUTERS[name](hashes, numbered_channels(9), batch=1).route(keys)
    assert counts(default) == literal(name, keys, hashes, 9)
    assert z < 1 or counts(default) != counts(routed)


def test_flexd_collects_a_segment_before_it_assigns_one():
    """Section 4.2: the first tuples of a hot key are spread, too, not only those after f."""
    keys, hashes = np.zeros(1000, dtype=np.int64), hashed_keys(1, 0)
    given = {"hot": 5.0, "delta": 1.1, "batch": 10}  # hot from half of the segment
    most = {}
    for running in (False, True):
        router = ROUTERS["flexd"](hashes, numbered_channels(10), running=running, **given)
        most[running] = max(counts(router.route(keys)).values())
    assert most[False] == 125 and most[True] >= 490


def test_dalton_caps_a_keys_copies():
    """Two at first; one more each time that 70% of the hot keys have as many; at most six."""
    hashes, channels = hashed_keys(300, 3), numbered_channels(50)
    keys = stream(2.5, rows=60_000)
    router = DaltonRouter(hashes, channels)
    routed = router.route(keys)
    assert router.most == 6
    assert np.unique(routed.key, return_counts=True)[1].max() == 6
    free = ROUTERS["dalton"](hashes, channels, capped=False).route(keys)
    assert np.unique(free.key, return_counts=True)[1].max() == 50
    function = STRATEGIES["dalton"](zipf_profile(300, 2.5, slots=4096), None, channels)
    assert np.diff(function.split.starts).max() == 6
    again = router.route(keys[:2000])
    assert len(again.key) and router.most == 6, "what was learned of hot keys stays"


@pytest.mark.parametrize("batch", [7, 500])
def test_a_batch_only_puts_a_keys_tuples_together(batch):
    keys, hashes = stream(1.0), hashed_keys(300, 3)
    ordered = []
    for start in range(0, len(keys), batch):
        part = keys[start : start + batch].tolist()
        ordered += sorted(part, key=part.index)
    routed = ROUTERS["pkg"](hashes, numbered_channels(9), batch=batch).route(keys)
    assert counts(routed) == literal("pkg", np.array(ordered), hashes, 9)


@pytest.mark.parametrize("name", ROUTERS)
def test_every_router_sends_every_tuple_once_to_an_open_channel(name):
    keys, hashes = stream(1.5), hashed_keys(300, 3)
    weights = np.random.default_rng(2).random(4000)
    channels = [Channel("a"), Channel("b", 0), Channel("c", 2), Channel("d"), Channel("e", 3)]
    router = ROUTERS[name](hashes, channels)
    for _ in range(2):
        routed = router.route(keys, weights)
        rows = np.bincount(routed.key, routed.rows, minlength=300)
        assert (rows == np.bincount(keys, minlength=300)).all()
        loads = np.bincount(routed.key, routed.load, minlength=300)
        assert loads == pytest.approx(np.bincount(keys, weights, minlength=300))
        assert (routed.rows > 0).all() and 1 not in routed.channel
        assert len(counts(routed)) == len(routed.key)
    again = ROUTERS[name](hashes, channels)
    again.route(keys, weights)
    assert counts(again.route(keys, weights)) == counts(routed)
    assert len(router.route(keys[:0]).key) == 0
    one = ROUTERS[name](hashes, numbered_channels(1)).route(keys)
    assert set(one.channel.tolist()) == {0}


def measured(name, z, channels=20):
    """(lambda, replication factor) of a router over 10,000 keys."""
    keys, hashes = stream(z, keys=10_000, rows=60_000), hashed_keys(10_000, 1)
    routed = ROUTERS[name](hashes, numbered_channels(channels)).route(keys)
    loads = np.bincount(routed.channel, routed.load, minlength=channels)
    return loads.max() / loads.mean() - 1, len(routed.key) / len(np.unique(routed.key))


def test_orderings_of_the_papers():
    """Nasir 2016: two choices fail where one key has more than two channels' fair load, W-Choices
    hold; D-Choices need fewer copies. FlexD: fewer copies than PStream and Dalton."""
    even, copies = zip(*(measured(n, 2.0) for n in ROUTERS), strict=True)
    even, copies = dict(zip(ROUTERS, even, strict=True)), dict(zip(ROUTERS, copies, strict=True))
    assert even["pkg"] > 4 and even["wchoices"] < 0.01 and even["dchoices"] < even["pkg"] / 10
    assert copies["pkg"] < copies["dchoices"] < copies["wchoices"]
    assert copies["flexd"] < min(copies["pstream"], copies["dalton"], copies["wchoices"])


def test_flexd_grows_with_the_logarithm_of_frequency():
    profile = profile_of_keys(KEY, hashed_keys(5, 0), np.array([500.0, 300, 100, 60, 40]), 64)
    function = flexd(profile, None, numbered_channels(10), delta=2.0, hot=1.0)
    copies = dict(zip(function.split.keys.tolist(), np.diff(function.split.starts), strict=True))
    for h, load in zip(profile.heavy.tolist(), profile.heavy_load.tolist(), strict=True):
        expected = 1 + math.floor(math.log2(load / 100)) if load >= 100 else 1
        assert copies.get(h, 1) == expected
    fine = flexd(profile, None, numbered_channels(10), delta=1.1, hot=1.0)
    assert len(fine.split.channels) > len(function.split.channels)


@pytest.mark.parametrize("name", ["dchoices", "wchoices", "pstream"])
def test_functions_come_to_what_routers_do(name):
    profile = zipf_profile(10_000, 2.0, slots=4096)
    function = STRATEGIES[name](profile, None, numbered_channels(20))
    loads = channel_loads(function, profile)
    assert imbalance(loads, function.capacities) - 1 == pytest.approx(
        measured(name, 2.0)[0], abs=0.12
    )


def test_choices_needed_is_the_least_that_holds_for_every_prefix():
    def holds(shares, d, n):
        for h in range(1, len(shares) + 1):
            reached = n - n * ((n - 1) / n) ** (h * d)
            rest = (reached / n) ** d * sum(shares[h:]) + (reached / n) ** 2 * (1 - sum(shares))
            if sum(shares[:h]) + rest > reached * (1 / n + 1e-4):
                return False
        return True

    for n in (2, 5, 50):
        for z in (0.6, 1.0, 1.4, 2.0):
            shares = zipf(1000, z)
            head = shares[shares >= 0.2 / n]
            least = next((d for d in range(2, n) if holds(head.tolist(), d, n)), n)
            assert choices_needed(head, n) == least
    assert choices_needed(np.array([1.0]), 8) == 8
    assert choices_needed(np.empty(0), 8) == 2
    assert choices_needed(np.array([1.0]), 1) == 1


def test_bad_options_and_splitting_plans_are_refused():
    profile = zipf_profile(50, 1.0, slots=64)
    with pytest.raises(InputError, match="delta"):
        flexd(profile, None, numbered_channels(2), delta=1.0)
    with pytest.raises(InputError, match="hot"):
        ROUTERS["pstream"](profile.heavy, numbered_channels(2), hot=0.0)
    with pytest.raises(InputError, match="0 tuples"):
        ROUTERS["pkg"](profile.heavy, numbered_channels(2), batch=0)
    previous = uniform(profile, None, numbered_channels(4))
    with pytest.raises(InputError, match="wchoices splits keys"):
        make_plan("t", profile, previous, numbered_channels(4), strategy="wchoices")
