"""Data quality over time: what each epoch's gates observed, expectation by expectation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenkeel.registry.epochs import Registry
from evenkeel.registry.run_folder import Folder
from evenkeel.registry.store import shaped
from partitioning.errors import EvenkeelError

#: Files of the two gates, and their suites.
GATES = {"before": "gate_plan.json", "after": "gate_tables.json"}


@dataclass(frozen=True)
class History:
    """One expectation over epochs: what each epoch's gate found, None where it did not ask."""

    suite: str
    what: str
    results: tuple[Mapping[str, Any] | None, ...]


def gates(folder: Folder) -> dict[str, Any]:
    """The gates that a run or epoch has left, by suite.

    Raises
    ------
    DamagedError : one is torn
    """
    found = {}
    for suite, file in GATES.items():
        if folder.exists(file):
            found[suite] = checked(folder.read_json(file), folder.path(file))
    return found


def checked(data: Any, where: str) -> dict[str, Any]:
    """What a gate has left, as read; DamagedError where it is no gate's."""
    for result in shaped(data, where, success=bool, results=list)["results"]:
        shaped(result, where, what=str, success=bool, severity=str)
    return dict(data)


def over_epochs(registry: Registry, numbers: Sequence[int]) -> tuple[list[History], list[str]]:
    """Each expectation over these epochs, in the order in which gates ask; and what could not be
    read."""
    problems: list[str] = []
    rows: dict[tuple[str, str], list[Mapping[str, Any] | None]] = {}
    for place, number in enumerate(numbers):
        try:
            left = gates(registry.archive(number))
        except EvenkeelError as error:
            problems.append(str(error))
            continue
        for suite, gate in left.items():
            for result in gate["results"]:
                row = rows.setdefault((suite, result["what"]), [None] * len(numbers))
                row[place] = result
    order = {suite: i for i, suite in enumerate(GATES)}
    found = [History(suite, what, tuple(row)) for (suite, what), row in rows.items()]
    return sorted(found, key=lambda h: order[h.suite]), problems
