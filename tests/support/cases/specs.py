"""A good spec, and how to write it with changes."""

from typing import Any

import yaml

GOOD: dict[str, Any] = {
    "table": "flights",
    "key": ["dest"],
    "input": {"path": "in.parquet", "time": "day"},
    "state": {"flights": {"path": "state", "columns": {"n": {"merge": "count"}}}},
    "registry": "registry",
    "channels": 4,
}


def write(folder, **changes):
    file = folder / "flights.yaml"
    file.write_text(yaml.safe_dump({**GOOD, **changes}))
    return file
