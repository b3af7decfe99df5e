"""Model of plan.json. `Plan` reads the file; this says first which field has the wrong type."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from evenkeel.registry.files.stored_file import FileModel
from partitioning.moves.moves import Move
from partitioning.planning.plan import PLAN_AGAIN, CurvePoint


class PlanRecord(FileModel):
    """A plan, as in `Plan`. Its digest is over all fields, so none of a later release is ignored.

    Parameters
    ----------
    format : of this file
    table : name of the table, as in its spec
    parent_epoch : number of the epoch from which rows move
    parent_digest : digest of that epoch's function
    function : the new partitioning function, as plain values
    moves : what changes its channel, in the order in which it moves
    bytes : of state that move
    state_bytes : of the whole state
    budget : bytes that may move; null: no limit
    max_imbalance : imbalance that was aimed at; null: as even as it gets
    imbalance_hashing : of plain hashing; 1 is perfect
    imbalance_before : of the parent epoch's function
    imbalance_after : of the new function
    floor : least imbalance that any function can reach
    loads_before : of each channel by the parent's function, in the unit of the window's load
    loads_after : of each channel by the new function, in the same unit
    curve : functions that could be had, each with its price
    bound : least bytes that any function could move for an imbalance
    window : its first day, and the day after the last
    tables : version of each state table that was weighed
    run : that carries the plan out; release 0.1.0 did not record it
    uncertain : why the load may be far from what comes; empty: nothing is known against it
    """

    advice: ClassVar[str] = PLAN_AGAIN

    format: Literal[1]
    table: str
    parent_epoch: int
    parent_digest: str
    function: dict[str, Any]
    moves: list[Move]
    bytes: float
    state_bytes: float
    budget: float | None
    max_imbalance: float | None
    imbalance_hashing: float
    imbalance_before: float
    imbalance_after: float
    floor: float
    loads_before: list[float]
    loads_after: list[float]
    curve: list[CurvePoint]
    bound: list[CurvePoint]
    window: tuple[str, str]
    tables: dict[str, int]
    run: str = ""
    uncertain: str = ""
