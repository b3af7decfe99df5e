"""Sketches keep their word, merged or not: no heavy key missed, no count off by over the bound."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partitioning.errors import InputError
from partitioning.workload.profile import merge, sums_by
from partitioning.workload.sketches import LossyCounting, SpaceSaving
from tests.support.planning.sketches import batches, epsilons, fed, holds

KINDS = [SpaceSaving, LossyCounting]


@pytest.mark.parametrize("kind", KINDS)
@given(epsilon=epsilons, parts=batches)
def test_counts_are_within_the_bound(kind, epsilon, parts):
    holds(fed(kind, epsilon, parts), Counter(k for part in parts for k in part))


@pytest.mark.parametrize("kind", KINDS)
@given(epsilon=epsilons, streams=st.lists(batches, min_size=1, max_size=4))
def test_merging_keeps_the_bound(kind, epsilon, streams):
    sketches = [fed(kind, epsilon, parts) for parts in streams]
    truth = Counter(k for parts in streams for part in parts for k in part)
    holds(kind.merged(sketches), truth)
    middle = len(sketches) // 2
    groups = [g for g in (sketches[:middle], sketches[middle:]) if g]
    grouped = kind.merged([kind.merged(g) for g in groups])
    holds(grouped, truth)
    grouped.update(np.array([3, 3, 40], dtype=np.int64))
    holds(grouped, truth + Counter([3, 3, 40]))


@given(epsilons, batches)
def test_lossy_counting_forgets_what_is_rare(epsilon, parts):
    sketch = fed(LossyCounting, epsilon, parts)
    assert (sketch.counts + sketch.errors > sketch.missed).all()
    assert (sketch.errors <= sketch.missed).all(), "a key that can have been missed for ever stays"


@pytest.mark.parametrize("kind", KINDS)
def test_weights_count_as_load_and_sketches_merge_with_exact_ones(kind):
    random = np.random.default_rng(3)
    keys, load = random.zipf(1.5, 20_000) % 1000, random.random(20_000)
    sketch = kind(0.01)
    for part in np.array_split(np.arange(20_000), 7):
        sketch.update(keys[part], load[part])
    truth = sums_by(keys, load, 1000)
    lacks = truth[sketch.keys] - sketch.counts
    assert (lacks > -1e-9).all() and (lacks <= sketch.missed + 1e-9).all()
    assert sketch.missed <= 0.01 * load.sum()
    assert (np.delete(truth, sketch.keys) <= sketch.missed + 1e-9).all()
    in_slots = sums_by(keys % 16, load, 16)
    one = sketch.sketch(in_slots, {1: "one"})
    assert one.heavy_names[one.heavy.tolist().index(1)] == "one"
    both = merge([one, one])
    assert both.error == 2 * sketch.missed and both.rows == 40_000
    assert both.load.tolist() == (2 * in_slots).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_is_refused(kind):
    for epsilon in (0, 1, -0.1, float("nan")):
        with pytest.raises(InputError, match="epsilon"):
            kind(epsilon)
    with pytest.raises(InputError, match="one epsilon"):
        kind.merged([kind(0.1), kind(0.2)])
    with pytest.raises(InputError, match="one epsilon"):
        kind.merged([])
