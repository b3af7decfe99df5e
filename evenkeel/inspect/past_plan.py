"""The plan that led to an epoch, as pages show it: balance, bytes, why each key moved.

A page lists a dozen epochs of ten thousand moves each. So the bytes of a plan are checked against
the digest that its epoch carries, and are parsed once: the result is cached under the digest. The
file is read each time, so an edited file is noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

from cachetools import LRUCache, cached

from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.registry.files.folder import Folder
from evenkeel.registry.files.migration_records import PlanSummary
from evenkeel.registry.files.stored_file import parse
from evenkeel.registry.profiles import epoch_plan
from partitioning.errors import DamagedError
from partitioning.planning.plan import Plan

#: Plans cached in a process. Each takes 3 MB with ten thousand moves (measured).
CACHED_PLANS = 48


@dataclass(frozen=True)
class PastPlan:
    """A plan that was carried out.

    Parameters
    ----------
    epoch : the number of the epoch that it led to
    imbalance_hashing, imbalance_before, imbalance_after, floor, bytes : as in `Plan`
    moves : their number; each share of a split key that moved is one
    reasons : why each slot and key moved, by kind of the move, and slot's number or key's hash
    """

    epoch: int
    imbalance_hashing: float
    imbalance_before: float
    imbalance_after: float
    floor: float
    bytes: float
    moves: int
    reasons: Mapping[tuple[str, int], str]


def past_plan(registry: Registry, epoch: Epoch) -> PastPlan | None:
    """Read the plan that led to `epoch`; None: it was bootstrapped, or its plan is missing.

    Raises
    ------
    DamagedError : the plan is torn, or not the one whose digest the epoch carries
    """
    kept = registry.archive(epoch.number)
    # The epoch carries the plan's digest, so its manifest need not be read.
    data = Folder.find(kept, kept.plan.name)
    if data is None:
        return None
    # Plans are written as canonical JSON, and the digest is that of the file.
    if hashlib.sha256(data).hexdigest() == epoch.plan_digest:
        with suppress(DamagedError):
            return _parsed(epoch.plan_digest, data)
    # The JSON is not canonical, or is damaged: then this raises an error that says how.
    plan = epoch_plan(registry, epoch.number)
    return None if plan is None else _summary(plan)


@cached(LRUCache(CACHED_PLANS), key=lambda digest, data: digest, lock=Lock())
def _parsed(digest: str, data: bytes) -> PastPlan:
    return _summary(parse(PlanSummary, data, digest))


def _summary(plan: Plan | PlanSummary) -> PastPlan:
    return PastPlan(
        epoch=plan.function.epoch,
        imbalance_hashing=plan.imbalance_hashing,
        imbalance_before=plan.imbalance_before,
        imbalance_after=plan.imbalance_after,
        floor=plan.floor,
        bytes=plan.bytes,
        moves=len(plan.moves),
        reasons={(m.kind, m.item): m.reason for m in plan.moves},
    )
