"""What a run's files say: its decision and a table's migration."""

from __future__ import annotations

from typing import Any

from tests.support.cases.reports import PLAN
from tests.support.raw_json import table_moved

DECISION: dict[str, Any] = {
    "rebalance": True,
    "reason": "imbalance 1.620 is over the trigger, 1.1",
    "imbalance": 1.62,
    "reachable": 1.02,
    "floor": 1.0,
    "bytes": 12_345_678.0,
    "saved_seconds": 410.0,
    "cost_seconds": 8.0,
}
TABLE = table_moved(after=5, rows=77, bytes=308_000, seconds=3.21)
MIGRATION = {"digest": PLAN.digest, "epoch": 1, "tables": {"words": TABLE}}
