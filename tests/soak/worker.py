"""The process that plays days: it has Spark, and may be killed at any moment.

Standard input: a line of JSON a day, [folder, seed, day, whether it is the last one, whether to
roll back what died]. Standard output: "soak: " and a line of JSON: what the diary says, or the
first difference.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

from evenkeel_spark.runtime.session import session
from tests.soak.life import Life
from tests.soak.year import Different

_SETTINGS = {
    "spark.master": "local[2]",
    # The clock jumps by a day: no heartbeat is late.
    "spark.network.timeout": "100000000s",
    # Delta would clean its log by the machine's dates: see `Accidents.maintain`.
    "spark.databricks.delta.properties.defaults.enableExpiredLogCleanup": "false",
}


def main() -> None:
    """Play each day that is asked for."""
    spark = session("evenkeel soak", **_SETTINGS)
    # What fails here may fail on purpose.
    spark.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        folder, seed, day, last, undo = json.loads(line)
        try:
            answer = Life(Path(folder), seed, spark, last=last).play(day, undo)
        except Different as different:
            answer = {"different": str(different)}
        except Exception:
            answer = {"stuck": "".join(traceback.format_exc()[-3000:])}
        print("soak:", json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
