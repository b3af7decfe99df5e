"""A table's status: its epoch, its balance on the newest profile, its last gates.

The status is for people. A file that is missing or damaged becomes a line in `problems`, and all
else is still shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from evenkeel.inspect.half_moved import HalfMoved, half_moved
from evenkeel.quality.data_docs import Page, pages
from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.registry.profiles import Learned, epoch_plan, newest_profile, run_names
from evenkeel.table import Table
from partitioning.errors import DamagedError, EvenkeelError, InputError
from partitioning.planning.aims import considered_from
from partitioning.planning.plan import Plan
from partitioning.workload.bounds import floor
from partitioning.workload.metrics import channel_loads, fair_shares, imbalance
from partitioning.workload.profile import Floats

T = TypeVar("T")
#: Older epochs to try if the current one cannot be read. More of them cost one read each.
OLDER_EPOCHS = 64


@dataclass(frozen=True)
class TableStatus:
    """A table's status. A field is None if there is none, or if it cannot be read (see `problems`).

    Parameters
    ----------
    table : its spec and registry
    epoch : the current one
    plan : the plan that led to it
    learned : the newest profile
    gates : the newest validation of each suite
    problems : one text for each file that cannot be read
    half : the migration that has begun and not ended, running or stuck
    unreadable : a file is damaged, or the store does not answer. So `half` may be missing, too
    released : time at which a team took its tables out again; nothing places their rows since
    """

    table: Table
    epoch: Epoch | None
    plan: Plan | None
    learned: Learned | None
    gates: tuple[Page, ...]
    problems: tuple[str, ...]
    half: HalfMoved | None = None
    unreadable: bool = False
    released: str | None = None

    @cached_property
    def loads(self) -> Floats | None:
        """Load of each channel of the current function on the newest profile, shape (N,)."""
        if self.epoch is None or self.learned is None:
            return None
        return channel_loads(self.epoch.function, self.learned.profile)

    @cached_property
    def imbalance(self) -> float | None:
        """Imbalance of the current function on the newest profile: 1 is perfect."""
        if self.epoch is None or self.loads is None:
            return None
        return imbalance(self.loads, self.epoch.function.capacities)

    @cached_property
    def floor(self) -> float | None:
        """Least imbalance that the newest profile allows."""
        if self.epoch is None or self.learned is None:
            return None
        channels, split = self.epoch.function.channels, self.table.spec.split is not None
        return floor(self.learned.profile, channels, split)

    @cached_property
    def limit(self) -> float:
        """Imbalance over which the table wants a rebalance; the trigger, where it is not known."""
        trigger = self.table.spec.trigger
        if self.epoch is None or self.learned is None or self.floor is None:
            return trigger
        channels = self.epoch.function.channels
        return considered_from(self.learned.profile, channels, trigger, self.floor)

    @cached_property
    def shares(self) -> list[float] | None:
        """Each channel's load over its fair share; infinite for load on a closed channel."""
        if self.epoch is None or self.loads is None:
            return None
        return fair_shares(self.loads, self.epoch.function.capacities)

    @property
    def fullest(self) -> int | None:
        """Number of the fullest channel."""
        shares = self.shares
        return None if shares is None else max(range(len(shares)), key=shares.__getitem__)


def table_status(table: Table) -> TableStatus:
    """Read a table's status. Never raise EvenkeelError: list it in `problems`."""
    registry, trial = table.registry, _Trial()
    epoch = _readable(registry, trial)
    plan = trial.of(lambda: epoch_plan(registry, epoch.number)) if epoch else None
    learned = trial.of(lambda: newest_profile(registry))
    gates = _newest(trial.of(lambda: pages(registry.store)) or [])
    half = trial.of(lambda: half_moved(registry, run_names(registry)))
    mark = trial.of(registry.files.released.find)
    if half is not None and half.damaged is not None:
        trial.problems.append(half.damaged)
    return TableStatus(
        table=table,
        epoch=epoch,
        plan=plan,
        learned=learned,
        gates=tuple(gates),
        half=half,
        problems=tuple(dict.fromkeys(trial.problems)),
        unreadable=trial.unreadable,
        released=mark and mark.time,
    )


@dataclass
class _Trial:
    """Reads that may fail, and what went wrong with them so far."""

    problems: list[str] = field(default_factory=list)
    unreadable: bool = False

    def of(self, read: Callable[[], T | None]) -> T | None:
        try:
            return read()
        except EvenkeelError as error:
            self.failed(error)
            return None

    def failed(self, error: EvenkeelError) -> None:
        self.problems.append(str(error))
        # An InputError says that something is not there yet.
        self.unreadable = self.unreadable or not isinstance(error, InputError)


def _readable(registry: Registry, trial: _Trial) -> Epoch | None:
    """Return the current epoch; if its file is damaged, the newest one that can be read."""
    try:
        return registry.current()
    except DamagedError as error:
        trial.failed(error)
    except EvenkeelError as error:
        trial.failed(error)
        return None
    for number in reversed((trial.of(registry.numbers) or [])[-OLDER_EPOCHS:-1]):
        try:
            epoch = registry.epoch(number)
        except EvenkeelError:
            continue
        trial.problems.append(
            f"the current epoch cannot be read: this page shows epoch {number}, the newest one "
            "that can be read"
        )
        return epoch
    return None


def _newest(found: list[Page]) -> list[Page]:
    """Return the newest page of each suite, from pages that come newest first."""
    first: dict[str, Page] = {}
    for page in found:
        first.setdefault(page.suite, page)
    return [first[suite] for suite in ("before", "after") if suite in first]
