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
    function : as plain values
    bytes, state_bytes : that move, and of the whole state
    budget : bytes that may move; null: no limit
    loads_before, loads_after : of each channel, in the unit of the window's load
    window : its first day, and the day after the last
    tables : version of each state table that was weighed
    run : that carries the plan out; release 0.1.0 did not record it
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
