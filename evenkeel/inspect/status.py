"""How a table stands now: its epoch, its balance on the newest profile, its last gates.

Read for people: what is missing or damaged is told in `problems`, and the rest stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from evenkeel.inspect.half_moved import HalfMoved, half_moved
from evenkeel.quality.data_docs import Page, pages
from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.registry.profiles import Learned, epoch_plan, newest_profile, run_names
from evenkeel.table import Table
from partitioning.errors import DamagedError, EvenkeelError
from partitioning.planning.plan import Plan
from partitioning.workload.bounds import floor
from partitioning.workload.metrics import channel_loads, imbalance
from partitioning.workload.profile import Floats

T = TypeVar("T")
#: Epochs that are tried where the current one cannot be read.
LOOKED_AT = 64


@dataclass(frozen=True)
class TableStatus:
    """What a table is like now; None: not there, or not to be read (then `problems` says so).

    Parameters
    ----------
    epoch : the current one
    plan : the plan that led to it
    learned : the newest profile
    gates : the newest validation of each suite
    half : the migration that has begun and not ended, be it under way or stuck
    """

    table: Table
    epoch: Epoch | None
    plan: Plan | None
    learned: Learned | None
    gates: tuple[Page, ...]
    problems: tuple[str, ...]
    half: HalfMoved | None = None

    @cached_property
    def loads(self) -> Floats | None:
        """Load of each channel of the current function on the newest profile, shape (N,)."""
        if self.epoch is None or self.learned is None:
            return None
        return channel_loads(self.epoch.function, self.learned.profile)

    @cached_property
    def imbalance(self) -> float | None:
        """Of the current function on the newest profile."""
        if self.epoch is None or self.loads is None:
            return None
        return imbalance(self.loads, self.epoch.function.capacities)

    @cached_property
    def floor(self) -> float | None:
        """The least imbalance that the newest profile allows."""
        if self.epoch is None or self.learned is None:
            return None
        channels, split = self.epoch.function.channels, self.table.spec.split is not None
        return floor(self.learned.profile, channels, split)

    @cached_property
    def shares(self) -> list[float] | None:
        """Each channel's load in fair shares; infinite for load on a closed one."""
        if self.epoch is None or self.loads is None:
            return None
        own = self.epoch.function.capacities
        total = float(self.loads.sum()) or 1.0
        fair = own / own.sum() * total
        return [
            float(x / f) if f > 0 else (float("inf") if x else 0.0)
            for x, f in zip(self.loads, fair, strict=True)
        ]

    @property
    def hottest(self) -> int | None:
        """Number of the fullest channel."""
        shares = self.shares
        return None if shares is None else max(range(len(shares)), key=shares.__getitem__)


def table_status(table: Table) -> TableStatus:
    """Read how a table stands; never raises our errors, tells them."""
    registry = table.registry
    problems: list[str] = []

    def tried(read: Callable[[], T | None]) -> T | None:
        try:
            return read()
        except EvenkeelError as error:
            problems.append(str(error))
            return None

    epoch = _readable(registry, problems)
    return TableStatus(
        table=table,
        epoch=epoch,
        plan=tried(lambda: epoch_plan(registry, epoch.number)) if epoch else None,
        learned=tried(lambda: newest_profile(registry)),
        gates=tuple(_newest(tried(lambda: pages(registry.store)) or [])),
        half=tried(lambda: half_moved(registry, run_names(registry))),
        problems=tuple(problems),
    )


def _readable(registry: Registry, problems: list[str]) -> Epoch | None:
    """The current epoch; where its file is damaged, the newest before it that can be read."""
    try:
        return registry.current()
    except DamagedError as error:
        problems.append(str(error))
    except EvenkeelError as error:
        problems.append(str(error))
        return None
    for number in reversed(registry.numbers()[-LOOKED_AT:-1]):
        try:
            epoch = registry.epoch(number)
        except EvenkeelError:
            continue
        problems.append(
            f"the current epoch cannot be read: what is told here is of epoch {number}, the last "
            "that can be"
        )
        return epoch
    return None


def _newest(found: list[Page]) -> list[Page]:
    """The newest page of each suite; they come newest first."""
    first: dict[str, Page] = {}
    for page in found:
        first.setdefault(page.suite, page)
    return [first[suite] for suite in ("before", "after") if suite in first]
