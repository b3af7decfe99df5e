"""What people have asked of the table until now, and the spec that it gives."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

#: Days of the window that plans learn from, and that state is bootstrapped from.
WINDOW = 7
#: Days that versions and files of old runs stay.
KEEP = 10
#: Bytes that a plan moves without asking: one that only splits keys moves none.
APPROVE_OVER = 1


@dataclass(frozen=True)
class Asked:
    """What people have asked of the table until now.

    Parameters
    ----------
    longest : first day that fills the column of the longest trip; None: there is no such column
    fares : name of the column of fares
    third : name of a third state table, and the first day that fills it; None: there is none
    gone : keys that were forgotten, and when they were so last
    changed : day of the last change of the spec
    """

    longest: int | None = None
    fares: str = "fares"
    third: tuple[str, int] | None = None
    gone: dict[str, int] = field(default_factory=dict)
    changed: int = -1

    @classmethod
    def read(cls, folder: Path) -> Asked:
        """Read what was asked for; nothing was before there is a file."""
        file = folder / "asked.json"
        found = json.loads(file.read_text()) if file.exists() else {}
        third = found.pop("third", None)
        return cls(third=None if third is None else (third[0], third[1]), **found)

    def write(self, folder: Path) -> None:
        """Leave it for the next process, whole or not at all."""
        unfinished = folder / ".asked"
        unfinished.write_text(json.dumps(asdict(self)))
        unfinished.replace(folder / "asked.json")

    def spec(self) -> dict[str, Any]:
        """Return the spec of the table."""
        totals: dict[str, Any] = {
            "trips": {"merge": "count"},
            "miles": {"merge": "sum", "of": "miles"},
            self.fares: {"merge": "sum", "of": "fare"},
            "first": {"merge": "min", "of": "at"},
        }
        if self.longest is not None:
            totals["longest"] = {"merge": "max", "of": "miles"}
        seen = {
            "latest": {"merge": "max", "of": "at"},
            "planes": {"merge": "set", "of": "plane"},
        }
        tables = {"totals": totals, "seen": seen}
        if self.third is not None:
            last = {
                "last": {"merge": "max", "of": "id"},
                "shortest": {"merge": "min", "of": "miles"},
            }
            tables[self.third[0]] = last
        return {
            "table": "year",
            "key": ["dest"],
            "input": {"path": "events", "time": "at"},
            "window": WINDOW,
            "state": {
                name: {"path": f"state/{name}", "columns": columns}
                for name, columns in tables.items()
            },
            "registry": "registry",
            "channels": 4,
            "slots": 64,
            "split": {"by": "id"},
            "trigger": 1.1,
            "approve_over": APPROVE_OVER,
            "keep": KEEP,
            "max_imbalance": 1.02,
            "watch": {"every": 240},
        }
