"""Data quality over time: what the gates of each epoch observed, by expectation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.outcome_records import ExpectationRecord, GateRecord
from evenkeel.registry.files.run_files import KeptFiles
from partitioning.errors import EvenkeelError


@dataclass(frozen=True)
class History:
    """One expectation over several epochs. An epoch whose gate did not ask it has None."""

    suite: str
    what: str
    results: tuple[ExpectationRecord | None, ...]


def gates(folder: KeptFiles) -> dict[str, GateRecord]:
    """Read the gates that a run or an epoch has left, by suite, in their order.

    Raises
    ------
    DamagedError : a gate's file is torn
    """
    found = {"before": folder.gate_plan.find(), "after": folder.gate_tables.find()}
    return {suite: gate for suite, gate in found.items() if gate is not None}


def over_epochs(registry: Registry, numbers: Sequence[int]) -> tuple[list[History], list[str]]:
    """Read each expectation over these epochs, in the order of the gates.

    Parameters
    ----------
    registry : of the table
    numbers : of the epochs

    Returns
    -------
    The expectations, and one text for each file that could not be read.
    """
    problems: list[str] = []
    rows: dict[tuple[str, str], list[ExpectationRecord | None]] = {}
    for place, number in enumerate(numbers):
        try:
            left = gates(registry.archive(number))
        except EvenkeelError as error:
            problems.append(str(error))
            continue
        for suite, gate in left.items():
            for result in gate.results:
                row = rows.setdefault((suite, result.what), [None] * len(numbers))
                row[place] = result
    found = [History(suite, what, tuple(row)) for (suite, what), row in rows.items()]
    return sorted(found, key=lambda h: h.suite != "before"), problems
