"""What the plan that led to an epoch still tells of it: its balance, its bytes, why each key moved.

A page lists a dozen epochs of ten thousand moves each. So a plan is held to the digest that its
epoch carries by its bytes as they stand, before they are parsed; and since the digest is the
plan's name, what was parsed once is kept under it. The file is still read each time: one that was
edited since is told.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

from cachetools import LRUCache, cached
from pydantic_core import from_json

from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.registry.profiles import epoch_plan
from partitioning.planning.plan import FORMAT, Plan

#: Plans kept in a process: 3 MB each with ten thousand moves.
KEPT = 48


@dataclass(frozen=True)
class PastPlan:
    """A plan that ran.

    Parameters
    ----------
    epoch : the number of the epoch that it led to
    imbalance_hashing, imbalance_before, imbalance_after, floor, bytes : as in `Plan`
    reasons : why each moved, by ("slot" or "key", slot's number or key's hash)
    """

    epoch: int
    imbalance_hashing: float
    imbalance_before: float
    imbalance_after: float
    floor: float
    bytes: float
    reasons: Mapping[tuple[str, int], str]

    @property
    def moves(self) -> int:
        """How many slots and keys moved."""
        return len(self.reasons)


def past_plan(registry: Registry, epoch: Epoch) -> PastPlan | None:
    """What the plan that led to `epoch` tells; None: it was bootstrapped, or lost its plan.

    Raises
    ------
    DamagedError : the plan is torn, or not the one whose digest the epoch carries
    """
    name = f"epochs/{epoch.number:08d}/plan.json"
    if not registry.store.exists(name):
        return None
    # Its digest is the epoch's own: no need of the one that was kept with it.
    data = registry.store.read(name)
    # Plans are written as the canonical JSON that their digest is taken over.
    if hashlib.sha256(data).hexdigest() == epoch.plan_digest:
        try:
            return _parsed(epoch.plan_digest, data)
        except (AttributeError, KeyError, TypeError, ValueError):
            pass
    # Spelt in another way, or damaged: then it says how.
    plan = epoch_plan(registry, epoch.number)
    return plan and _told(plan)


@cached(LRUCache(KEPT), key=lambda digest, data: digest, lock=Lock())
def _parsed(digest: str, data: bytes) -> PastPlan:
    plan = from_json(data)
    if plan["format"] != FORMAT:
        raise ValueError(plan["format"])
    return PastPlan(
        epoch=plan["function"]["epoch"],
        imbalance_hashing=plan["imbalance_hashing"],
        imbalance_before=plan["imbalance_before"],
        imbalance_after=plan["imbalance_after"],
        floor=plan["floor"],
        bytes=plan["bytes"],
        reasons={(m["kind"], m["item"]): m["reason"] for m in plan["moves"]},
    )


def _told(plan: Plan) -> PastPlan:
    return PastPlan(
        epoch=plan.function.epoch,
        imbalance_hashing=plan.imbalance_hashing,
        imbalance_before=plan.imbalance_before,
        imbalance_after=plan.imbalance_after,
        floor=plan.floor,
        bytes=plan.bytes,
        reasons={(m.kind, m.item): m.reason for m in plan.moves},
    )
