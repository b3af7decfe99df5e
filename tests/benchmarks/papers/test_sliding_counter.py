"""The sliding lossy counter has the last rows only, and within the bound of lossy counting."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.papers.rivetti.sliding import SlidingLossyCounting
from partitioning.errors import InputError
from partitioning.workload.sketches import LossyCounting
from tests.support.planning.sketches import batches, epsilons, fed, holds


@given(epsilons, batches, st.integers(1, 12))
def test_sliding_counts_the_last_rows_alone(epsilon, parts, half):
    sliding = fed(lambda e: SlidingLossyCounting(e, 2 * half), epsilon, parts)
    stream = [k for part in parts for k in part]
    rows = sliding.current.rows
    assert len(sliding.counters) <= 3
    assert rows == len(stream) if len(stream) < 2 * half else 2 * half <= rows < 3 * half
    holds(sliding.current, Counter(stream[len(stream) - rows :]))


@given(epsilons, st.lists(batches, min_size=1, max_size=4), st.integers(1, 12))
def test_the_last_rows_of_parts_merge(epsilon, streams, half):
    last, truth = [], Counter[int]()
    for parts in streams:
        sliding = fed(lambda e: SlidingLossyCounting(e, 2 * half), epsilon, parts)
        stream = [k for part in parts for k in part]
        truth.update(stream[len(stream) - sliding.current.rows :])
        last.append(sliding.current)
    holds(LossyCounting.merged(last), truth)


def test_a_window_is_an_even_number_of_rows():
    with pytest.raises(InputError, match="no even number"):
        SlidingLossyCounting(0.1, 7)
