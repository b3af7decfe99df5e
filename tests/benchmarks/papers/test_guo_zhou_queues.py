"""The queue model of Guo and Zhou's latencies."""

import numpy as np
import pytest

from benchmarks.papers.guo_zhou import histograms
from benchmarks.papers.guo_zhou_queues import SERVICE, Minute, latencies, minutes, percentile


def test_an_instance_below_its_rate_waits_for_nothing():
    values, weights = latencies([Minute(np.array([500.0, 900.0]), 0.0)] * 2, 1.0)
    assert values == pytest.approx(1000 / SERVICE)
    assert weights.sum() == pytest.approx(2 * 60 * 1400)


def test_an_overloaded_instance_keeps_its_queue():
    """100 tuples a second too many for two minutes: 12,000 tuples, 12 s."""
    values, weights = latencies([Minute(np.array([1100.0]), 0.0)] * 2, 0.0)
    assert values[0] == 1.0 and values[-1] == pytest.approx(12_001, rel=0.01)
    assert percentile(values, weights, 0.5) == pytest.approx(6_001, rel=0.02)


def test_all_tuples_wait_while_the_operator_pauses():
    """A tenth of the state at 5 s for all: the first tuple waits half a second."""
    values, _ = latencies([Minute(np.array([500.0]), 0.1)], 5.0)
    assert values[0] == pytest.approx(501) and values[-1] == pytest.approx(1.0)


def test_instances_are_added_as_the_rate_grows():
    course = minutes("elb", histograms(0)[:9], 1.0)
    assert [len(minute.rates) for minute in course[:: len(course) - 1]] == [1, 16]
    assert course[0].rates.sum() == pytest.approx(1000)
    assert course[0].moved == 0 < course[-1].moved < 1
