"""What a run has left in its registry, to hold pages against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenkeel.pipeline import steps
from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.render.formatting import bytes_text, count_text, imbalance_text
from partitioning.planning.plan import Plan
from partitioning.workload.metrics import channel_loads
from partitioning.workload.profile import Profile
from tests.support.worlds.shop import Shop


@dataclass
class Files:
    """What the newest run of a table has left in its registry."""

    shop: Shop
    run: str
    epoch: Epoch
    plan: Plan
    profile: Profile

    @classmethod
    def of(cls, shop: Shop, run: str) -> Files:
        """The files of that run, whose epoch is the current one."""
        folder = shop.registry.run(run)
        return cls(
            shop, run, shop.registry.current(), steps.read_plan(folder), folder.profile.read()
        )

    @property
    def registry(self) -> Registry:
        return self.shop.registry

    @property
    def names(self) -> list[str]:
        """Names of the channels before and after the newest plan."""
        return names_of(self.plan)

    @property
    def loads(self) -> Any:
        return channel_loads(self.epoch.function, self.profile)

    @property
    def shares(self) -> Any:
        """Load of each channel over its fair share; infinite for load on a closed channel."""
        own, loads = self.epoch.function.capacities, self.loads
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(loads / (own / own.sum() * loads.sum()), nan=0.0, posinf=np.inf)

    @property
    def fullest(self) -> int:
        return int(self.shares.argmax())


def names_of(plan: Plan) -> list[str]:
    """Names of the channels before and after; one that was dropped goes by its number."""
    kept = [c.name for c in plan.function.channels]
    return kept + [str(i) for i in range(len(kept), len(plan.loads_before))]


def plain(text: str) -> str:
    """As a page says it, with single spaces."""
    return " ".join(text.split())


def of_plan(plan: Plan) -> dict[str, str]:
    """The figures of a plan, by the names that every page gives them."""
    figures = {
        "imbalance before": imbalance_text(plan.imbalance_before),
        "imbalance after": imbalance_text(plan.imbalance_after),
        "floor": imbalance_text(plan.floor),
        "hashing alone": imbalance_text(plan.imbalance_hashing),
        "state to move": plain(bytes_text(plan.bytes)),
        "moves": f"{len(plan.moves):,}",
    }
    if len(plan.function.split):
        figures["split keys"] = f"{len(plan.function.split):,}"
    return figures


def moves_of(plan: Plan, names: list[str]) -> list[dict[str, str]]:
    """The moves of a plan as every page lists them."""
    return [
        {
            "No.": str(number),
            "What": plain(move.name),
            "From": names[move.source],
            "To": names[move.target],
            "Load": count_text(move.load),
            "State": plain(bytes_text(move.bytes)),
            "Because": plain(move.reason),
        }
        for number, move in enumerate(plan.moves, 1)
    ]
