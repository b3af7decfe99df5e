"""Plans: everything it takes to go from one epoch to the next, as data with a digest.

A plan is made here, shown to people, and carried out elsewhere. Jobs that carry it out have its
digest, and refuse any other plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from partitioning.errors import DamagedError, InputError, without_advice
from partitioning.function.canonical import canonical_json
from partitioning.function.channels import Channel
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn
from partitioning.moves.moves import Move, moves_between
from partitioning.moves.partial_rows import shared_keys
from partitioning.planning.split_curve import shared_curve
from partitioning.strategies import STRATEGIES
from partitioning.strategies.frontier.options import WORTH, named_keys
from partitioning.strategies.frontier.tradeoff import trace
from partitioning.strategies.hashing import uniform
from partitioning.strategies.options import check_options
from partitioning.workload.metrics import channel_loads, imbalance_of
from partitioning.workload.profile import Floats, Packed, Profile

FORMAT = 1
#: Advice for a damaged plan.
PLAN_AGAIN = "Plan again: start a new run"


@dataclass(frozen=True)
class CurvePoint:
    """A function that could be had: so many bytes moved for this imbalance.

    Parameters
    ----------
    bytes : of state that move
    imbalance : that this reaches; 1 is perfect
    """

    bytes: float
    imbalance: float


@dataclass(frozen=True, eq=False)
class Plan:
    """A decision, its reasons, and the data that it was made from.

    Parameters
    ----------
    loads_* : one entry for each channel of the longer of the two channel lists, in the window's
        unit
    bound : least bytes that any function could move for the imbalance (LP relaxation)
    floor : least imbalance that any function can reach; without split keys, if the plan may split
        none
    tables : name of each state table -> version that was weighed
    run : run that carries the plan out, so that no two runs have plans of one digest. It is empty
        while the plan is in no run's folder, and in plans that earlier versions of Evenkeel wrote
    uncertain : why the load may be far from what comes; empty: nothing is known against it
    """

    table: str
    parent_epoch: int
    parent_digest: str
    function: PartitioningFunction
    moves: tuple[Move, ...]
    bytes: float
    state_bytes: float
    budget: float | None
    max_imbalance: float | None
    imbalance_hashing: float
    imbalance_before: float
    imbalance_after: float
    floor: float
    loads_before: tuple[float, ...]
    loads_after: tuple[float, ...]
    curve: tuple[CurvePoint, ...]
    bound: tuple[CurvePoint, ...]
    window: tuple[str, str]
    tables: Mapping[str, int] = field(default_factory=dict)
    run: str = ""
    uncertain: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `digest` is taken over exactly this."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["function"] = self.function.to_dict()
        # They hold plain values alone: asdict would copy each of them deeply.
        for name in ("curve", "bound"):
            values[name] = [dict(vars(item)) for item in values[name]]
        values["moves"] = [move.to_dict() for move in values["moves"]]
        for name in ("loads_before", "loads_after", "window"):
            values[name] = list(values[name])
        # The digest of a plan without these is the one that earlier versions of Evenkeel took.
        for name in ("run", "uncertain"):
            if not values[name]:
                del values[name]
        return {"format": FORMAT, **values, "tables": dict(self.tables)}

    def to_bytes(self) -> Packed:
        """Return the canonical JSON, over which `digest` is taken."""
        return canonical_json(self.to_dict())

    @cached_property
    def digest(self) -> str:
        """sha256 over the canonical JSON: the plan's name."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @classmethod
    def from_bytes(cls, data: Packed, where: str = "plan") -> Plan:
        """Inverse of `to_bytes`; raises DamagedError."""
        try:
            values = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise DamagedError(f"not JSON ({error})", where, PLAN_AGAIN) from error
        return cls.from_dict(values, where)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "plan") -> Plan:
        """Inverse of `to_dict`; raises DamagedError."""
        try:
            values = dict(data)
            if values.pop("format") != FORMAT:
                raise ValueError(f"format is not {FORMAT}")
            values["function"] = PartitioningFunction.from_dict(values["function"], where)
            values["moves"] = tuple(Move(**m) for m in values["moves"])
            for name in ("curve", "bound"):
                values[name] = tuple(CurvePoint(**p) for p in values[name])
            for name in ("loads_before", "loads_after", "window"):
                values[name] = tuple(values[name])
            made = cls(**values)
            for name in ("run", "uncertain"):
                if not isinstance(getattr(made, name), str):
                    raise TypeError(f"{name} is not a text")
            # A plan is known by its digest: what has none is no plan.
            _ = made.digest
            return made
        except (AttributeError, KeyError, TypeError, ValueError, InputError) as error:
            raise DamagedError(
                f"not a plan ({without_advice(error)})", where, PLAN_AGAIN
            ) from error


def make_plan(
    table: str,
    profile: Profile,
    previous: PartitioningFunction,
    channels: Sequence[Channel],
    *,
    strategy: str = "frontier",
    options: Mapping[str, Any] | None = None,
    max_imbalance: float | None = None,
    budget: float | None = None,
    tables: Mapping[str, int] | None = None,
    row: KeyColumn | None = None,
    copies: int | None = None,
    worth: float = WORTH,
) -> Plan:
    """Build the next function and say what it takes to get there.

    It is pure, and deterministic unless frontier is given `seconds`. The function has the profile's
    slots, a multiple of those that `previous` has.

    Parameters
    ----------
    max_imbalance : where frontier stops; None: as even as it gets
    budget : bytes of state that frontier may move; None: no limit
    tables : version of each state table that the profile was weighed at
    row : column of the events by which keys may be split; None: every key stays whole
    copies : most channels over which frontier splits a key; None: any number
    worth : state that may move for each partial row spared, in channels' means

    Raises
    ------
    InputError : an unknown strategy or option, or a strategy that splits keys which may not be
    """
    channels = tuple(channels)
    given = dict(options or {})
    check_options(strategy, given)
    if strategy == "frontier":
        given = {"max_imbalance": max_imbalance, "budget": budget, **given}
        if row is not None:
            given = {"splitting": True, "copies": copies, "worth": worth, **given}
    finer = previous.refined(profile.slots)
    function = STRATEGIES[strategy](profile, finer, channels, **given)
    if len(function.split):
        if row is None:
            what = f"{strategy} splits keys, and the spec does not allow it"
            raise InputError(what, "strategy", "Choose one that does not, or set `split`")
        function = replace(function, row=row)
    return plan_for(
        table,
        profile,
        previous,
        function,
        max_imbalance=max_imbalance,
        budget=budget,
        tables=tables,
        splitting=row is not None,
        copies=copies,
        worth=worth,
    )


def plan_for(
    table: str,
    profile: Profile,
    previous: PartitioningFunction,
    function: PartitioningFunction,
    *,
    max_imbalance: float | None = None,
    budget: float | None = None,
    tables: Mapping[str, int] | None = None,
    reason: str | None = None,
    splitting: bool = False,
    copies: int | None = None,
    worth: float = WORTH,
) -> Plan:
    """Build the plan that leads from `previous` to a function that is given.

    Parameters
    ----------
    profile : its slots are a multiple of those of both functions, and the plan's function has them
    splitting : whether keys may be split; the plan then says what balance costs with split keys
    copies, worth : as in `make_plan`
    """
    parent, rows = previous.digest, previous.row_slots
    previous, function = (f.refined(profile.slots) for f in (previous, function))
    function = replace(function, row_slots=rows, epoch=previous.epoch + 1, parent=parent)
    shared = shared_keys(previous, function)
    profile = profile.listing(np.union1d(previous.exceptions, function.exceptions))
    moves = moves_between(previous, function, profile, reason)
    channels = max(len(previous.channels), len(function.channels))
    # A person who goes back to a placement asks for nothing else.
    asked = function.options if reason is None and function.strategy == "frontier" else {}
    pinned, excluded = named_keys(profile.key, function.channels, asked)
    if splitting or len(shared):
        aims = {"max_imbalance": max_imbalance, "budget": budget}
        aims |= {"copies": copies, "worth": worth} if splitting else {}
        held = reason is None and function.strategy != "frontier"
        allowed = splitting or len(function.split) > 0
        curve = shared_curve(
            profile, previous, function, allowed, aims if held else None, pinned, excluded, copies
        )
    else:
        curve = trace(profile, previous, function.channels, pinned, excluded)
    hashed = uniform(profile, None, function.channels)
    return Plan(
        table=table,
        parent_epoch=previous.epoch,
        parent_digest=parent,
        function=function,
        moves=moves,
        bytes=float(sum(m.bytes for m in moves)),
        state_bytes=float(profile.bytes.sum()),
        budget=budget,
        max_imbalance=max_imbalance,
        imbalance_hashing=imbalance_of(hashed, profile),
        imbalance_before=imbalance_of(previous, profile),
        imbalance_after=imbalance_of(function, profile),
        floor=curve.floor,
        loads_before=_padded(channel_loads(previous, profile), channels),
        loads_after=_padded(channel_loads(function, profile), channels),
        curve=_points(curve.bytes, curve.imbalance),
        bound=_points(curve.bound_bytes, curve.bound_imbalance),
        window=profile.window,
        tables=dict(tables or {}),
        uncertain=profile.uncertain,
    )


def _padded(loads: Floats, count: int) -> tuple[float, ...]:
    return (*loads.tolist(), *[0.0] * (count - len(loads)))


def _points(sizes: Floats, imbalances: Floats) -> tuple[CurvePoint, ...]:
    return tuple(CurvePoint(float(b), float(i)) for b, i in zip(sizes, imbalances, strict=True))
