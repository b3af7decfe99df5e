"""Other columns of the state table totals, for tests of both formats that evolve it."""

from __future__ import annotations

from evenkeel_spark.evolving.changes import Intent
from tests.conftest import SPEC

COLUMNS = SPEC["state"]["totals"]["columns"]
#: Without `first`, with another name for `miles`, and with columns that are new.
OTHERS = {
    "trips": {"merge": "count"},
    "flown": {"merge": "sum", "of": "miles"},
    "last": {"merge": "max", "of": "at"},
    "least": {"merge": "min", "of": "miles"},
    "newest": {"merge": "last", "of": "miles"},
    "each": {"merge": "set", "of": "miles"},
}
INTENT = Intent.of(["totals.miles=flown"], ["totals.first"])
