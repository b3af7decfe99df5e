"""JSON files of a run or an epoch as they stand, past their models: to damage them, and to look."""

from __future__ import annotations

import json
from typing import Any

from evenkeel.registry.files.folder import Folder
from partitioning.function.canonical import canonical_json


def read_json(folder: Folder, file: str) -> Any:
    """The file's JSON."""
    return json.loads(folder.read(file))


def write_json(folder: Folder, file: str, value: Any) -> None:
    """Replace the file."""
    folder.write(file, canonical_json(value))


def table_moved(**said: Any) -> dict[str, Any]:
    """What migration.json says of a table that had nothing to move, but for what is said."""
    nothing = {"rows": 0, "bytes": 0, "files": 0, "commits": [], "seconds": 0.0}
    return {"path": "state", "before": 3, "after": 3, "bytes_per_row": 10.0, **nothing, **said}
