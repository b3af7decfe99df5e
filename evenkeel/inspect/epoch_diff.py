"""Comparison of two epochs: which keys changed their channel, what they weigh, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenkeel.inspect.past_plan import past_plan
from evenkeel.registry.epochs import Epoch, Registry
from partitioning.errors import EvenkeelError
from partitioning.function.hashing import slot_of
from partitioning.moves.moves import Move, moves_between
from partitioning.workload.profile import Profile


@dataclass(frozen=True)
class Comparison:
    """The difference between two epochs.

    Parameters
    ----------
    old, new : the epochs
    moves : from old to new, most load first, each with the reasons of the plans in between
    problems : one text for each plan, or its profile, that could not be read
    weighed : the moves have loads and bytes
    planned : these are the ones by which the plan between the two epochs was made
    """

    old: Epoch
    new: Epoch
    moves: tuple[Move, ...]
    problems: tuple[str, ...]
    weighed: bool
    planned: bool


def compare(registry: Registry, old: int, new: int, profile: Profile | None) -> Comparison:
    """Compare where two epochs place keys.

    Between neighbours, the profile of their plan weighs the moves, as on the page of its run. If
    that profile is lost, `profile` does.

    Parameters
    ----------
    registry : of the table
    old, new : numbers of the epochs
    profile : weighs all other moves; None: their loads, bytes and rows are 0, and heavy keys are
        named by their hash

    Raises
    ------
    InputError : there is no such epoch
    """
    before, after = registry.epoch(old), registry.epoch(new)
    first, second = before.function, after.function
    problems: list[str] = []
    planned = _planned(registry, old, new, problems)
    profile = planned or profile
    weights = (profile or _unweighed(before)).listing(
        np.concatenate([first.exceptions, second.exceptions])
    )
    slots = max(len(first.slots), len(second.slots))
    reasons: dict[tuple[str, int], list[str]] = {}
    for number in range(min(old, new) + 1, max(old, new) + 1):
        try:
            plan = past_plan(registry, registry.epoch(number))
        except EvenkeelError as error:
            problems.append(str(error))
            continue
        own = len(registry.epoch(number).function.slots)
        for (kind, item), reason in plan.reasons.items() if plan else ():
            # A slot of then may be split into several by now.
            for part in range(item, slots, own) if kind == "slot" else (item,):
                reasons.setdefault((kind, part), []).append(f"epoch {number}: {reason}")

    def why(move: Move) -> str:
        found = reasons.get((move.kind, move.item), [])
        if move.kind != "slot":
            slot = int(slot_of(np.array([move.item], dtype=np.int64), slots)[0])
            found = found or reasons.get(("slot", slot), [])
        return "; ".join(found) or "no plan in between gives a reason"

    moves = moves_between(first, second, weights)
    return Comparison(
        before,
        after,
        tuple(replace(m, reason=why(m)) for m in moves),
        tuple(problems),
        weighed=profile is not None,
        planned=planned is not None,
    )


def _planned(registry: Registry, old: int, new: int, problems: list[str]) -> Profile | None:
    """Read the profile from which the plan between two neighbours was made; None: there is none."""
    if abs(new - old) != 1:
        return None
    try:
        return registry.archive(max(old, new)).profile.find()
    except EvenkeelError as error:
        problems.append(str(error))
        return None


def _unweighed(epoch: Epoch) -> Profile:
    nothing, none = np.zeros(len(epoch.function.slots)), np.zeros(0)
    return Profile(
        key=epoch.function.key,
        load=nothing,
        bytes=nothing,
        rows=nothing,
        heavy=np.zeros(0, dtype=np.int64),
        heavy_load=none,
        heavy_bytes=none,
        heavy_rows=none,
        heavy_names=(),
    )
