"""Reshape's figures from small runs: how busy workers are, and when skew is detected."""

import numpy as np
import pytest

from benchmarks.papers.reshape import reshape_more
from benchmarks.papers.reshape.queues import TWEETS, Run, tweets


def test_reshape_by_how_busy_workers_are():
    """7.12: Flink's controller sees two busy workers as alike, and leaves what one has ahead."""
    ratio = {}
    for name, options in (("queues", reshape_more.BY_QUEUES), ("busy", reshape_more.BY_BUSY)):
        run = Run("reshape", **options).go(tweets(1_000), TWEETS)
        ratio[name] = np.mean(run.balance)
        assert run.iterations >= 1 and run.allotted.sum() == pytest.approx(27_600)
    assert 0.85 < ratio["busy"] < 0.95 < ratio["queues"]


def test_reshape_detects_moderate_skew_later():
    """7.7: workers that keep up with the input are never skewed."""
    counts = {join: reshape_more.counts_of(join, 40) for join in reshape_more.JOINS}
    assert counts["item"].max() > 1.5 * counts["date"].max()
    speed = counts["item"].max() / 267
    found = {join: reshape_more.ratios(each, 267, speed, 0.4) for join, each in counts.items()}
    assert np.median(found["item"]) > 0.77 > np.median(found["date"])
    quick = reshape_more.ratios(counts["date"], 267, speed, 0.05)
    assert min(quick) > max(0.8, np.median(found["date"]))
