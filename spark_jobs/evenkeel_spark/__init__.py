"""Move rows: everything of Evenkeel that needs Spark."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from evenkeel.extras import CANNOT_START, check_spark_here
from partitioning.errors import SetupError

if TYPE_CHECKING:
    from evenkeel_spark.tables.spark_errors import may_try_again
    from evenkeel_spark.tables.write_session import commit_session
    from evenkeel_spark.watching.streaming import meet

__all__ = ["commit_session", "may_try_again", "meet"]

#: Public name -> its module. Jobs import this package for their own modules only.
_MODULES = {
    "commit_session": "evenkeel_spark.tables.write_session",
    "may_try_again": "evenkeel_spark.tables.spark_errors",
    "meet": "evenkeel_spark.watching.streaming",
}

try:
    # Before any module imports PySpark: of two versions mixed, its import may fail.
    check_spark_here()
except SetupError as error:
    # spark-submit sets this for the job that it starts: one line there, an import error elsewhere.
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        print(f"evenkeel: error: {error}", file=sys.stderr)
        sys.exit(CANNOT_START)
    raise


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
