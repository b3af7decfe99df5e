"""What a watch has seen and decided of a shop's hot key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from evenkeel.spec.loading import load_spec
from evenkeel.watch import mitigation, state
from evenkeel.watch.state import PendingDecision, WatchState
from partitioning.watch.mitigation import Limits, MicroBatch, Weights
from tests.support.worlds.shop import Shop

ASKED = {"split": {"by": "id"}, "watch": {"memory": 3}, "strategy": "frontier"}


def heaviest(shop: Shop) -> tuple[int, int]:
    """The heaviest key, and its channel."""
    key = int(shop.profile.heavy[shop.profile.heavy_load.argmax()])
    return key, int(shop.registry.current().function.lookup_hashes(np.array([key]))[0])


def folded(
    shop: Shop, known: WatchState, number: int, hot: float, **more: Any
) -> tuple[WatchState, WatchState, dict[int, Weights]]:
    """A batch in which each channel gets 100, and the heaviest key so much beside."""
    key, home = heaviest(shop)
    loads = np.full(4, 100.0)
    loads[home] += hot
    batch = MicroBatch(number, shop.registry.current().number, loads, np.zeros(4), {key: hot})
    limits = Limits(eta=1.5, memory=3)
    return known.folded(batch, shop.registry.current().function, limits, 2.0, **more)


def decided(shop: Shop, run: str = "w0") -> WatchState:
    """The watch after a batch at which it has decided to split the heaviest key."""
    spec = load_spec(shop.spec)
    assert spec.watch is not None
    known = state.new_watch("batches", shop.registry.current(), spec.watch)
    known, after, weights = folded(shop, known, 0, 400.0)
    assert weights and known.watch.spread == {} and set(after.watch.spread) == set(weights)
    owners = mitigation.owners(weights, after.watch)
    return replace(known, decided=PendingDecision(run, 0, owners, after.watch), outcome="split")
