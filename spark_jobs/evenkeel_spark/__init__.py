"""Move rows: everything of Evenkeel that needs Spark."""

import os
import sys

from evenkeel.extras import require_packages
from partitioning.errors import MissingExtraError

try:
    require_packages("spark", "pyspark", "delta")
except MissingExtraError as error:
    # spark-submit sets this for the job that it starts: one line there, an import error elsewhere.
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        sys.exit(f"evenkeel: error: {error}")
    raise
