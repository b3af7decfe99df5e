"""What a run has left in its registry, to hold pages against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenkeel.registry.epochs import Epoch, Registry
from partitioning.planning.plan import Plan
from partitioning.workload.metrics import channel_loads
from partitioning.workload.profile import Profile


@dataclass
class Files:
    """What the newest run of a table has left in its registry."""

    registry: Registry
    run: str
    epoch: Epoch
    plan: Plan
    profile: Profile

    @property
    def loads(self) -> Any:
        return channel_loads(self.epoch.function, self.profile)

    @property
    def shares(self) -> Any:
        own = self.epoch.function.capacities
        return self.loads / (own / own.sum() * self.loads.sum())

    @property
    def hottest(self) -> int:
        return int(self.shares.argmax())
