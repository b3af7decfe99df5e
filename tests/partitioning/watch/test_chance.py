"""Micro-batches of few events: what chance alone makes uneven moves hardly anything."""

from __future__ import annotations

import math

import numpy as np
import pytest

from partitioning.strategies.skew import Threshold
from partitioning.watch.controller import Controller
from partitioning.watch.mitigation import Limits, MicroBatch, Weights
from partitioning.workload.profile import Floats

CHANNELS, HOT, DAY = 10, 3, 288


def watched(
    events: float, keys: int, hot: Floats, seed: int = 0, splitting: bool = True
) -> list[tuple[int, int]]:
    """Play Poisson batches of even keys, of which one brings `hot` channels' worth beside.

    Returns
    -------
    (batch, key) of each change
    """
    random, changes = np.random.default_rng(seed), list[tuple[int, int]]()
    weights: dict[int, Weights] = {k: {k % CHANNELS: 1.0} for k in range(keys)}
    limits = Limits(eta=1.5 * events, calm=1.1, splitting=splitting)
    watch, backlog = Controller(Threshold.of(0.5 * events)), np.zeros(CHANNELS)
    for number, beside in enumerate(hot):
        came = random.poisson(events * CHANNELS / keys, keys)
        came[HOT] += random.poisson(beside * events)
        loads = np.zeros(CHANNELS)
        for key in np.flatnonzero(came).tolist():
            channels = list(weights[key])
            parts = np.array(list(weights[key].values()))
            loads[channels] += random.multinomial(came[key], parts / parts.sum())
        listed = np.flatnonzero(came >= 0.1 * loads.mean()).tolist()
        batch = MicroBatch(
            number,
            0,
            loads,
            backlog + loads,
            {k: float(came[k]) for k in listed},
            rows=float(came.sum()),
        )
        backlog = np.maximum(backlog + loads - 2 * events, 0.0)
        homes = {k: next(iter(weights[k])) for k in listed if len(weights[k]) == 1}
        watch, decided = watch.fold(batch, 0, limits, homes)
        weights |= decided
        changes += [(number, key) for key in decided]
    return changes


@pytest.mark.parametrize("events", [10, 20, 100])
@pytest.mark.parametrize("keys", [50, 1000])
@pytest.mark.parametrize("splitting", [True, False])
def test_chance_alone_moves_hardly_anything(events: int, keys: int, splitting: bool) -> None:
    changes = watched(events, keys, np.zeros(DAY), splitting=splitting)
    assert len({number for number, _ in changes}) <= 4


@pytest.mark.parametrize("events", [20, 100])
def test_a_hot_key_is_found_at_once_among_few_events(events: int) -> None:
    changes = watched(events, 1000, np.repeat([0.0, 4.0], [50, 20]))
    assert (50, HOT) in changes


@pytest.mark.parametrize("rows", [math.inf, 1e6])
def test_of_many_events_no_chance_is_feared(rows: float) -> None:
    loads = np.full(CHANNELS, 100.0) + np.eye(CHANNELS)[HOT] * 60
    batch = MicroBatch(0, 0, loads, loads, {HOT: 60.0}, rows=rows)
    watch = Controller(Threshold.of(50.0))
    assert watch.fold(batch, 0, Limits(eta=150.0, calm=1.1), {HOT: HOT})[1]
