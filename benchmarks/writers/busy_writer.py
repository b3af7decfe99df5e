"""Commit to a state table at a fixed period, and say what was committed: for `under_fire`.

It runs in a process of its own until its standard input ends. Appends of new keys and MERGEs of
keys that are there take turns, routed by the current epoch. A commit that loses, or that a
constraint refuses, is made again until Delta has taken it. Each commit is one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from evenkeel_spark.runtime.session import session
from evenkeel_spark.tables.delta import state
from evenkeel_spark.tables.spark_errors import CONFLICTS, REFUSED, SPARK_ERRORS
from partitioning.function.sql import channel_sql, slot_sql

#: Seconds to wait after a refusal, unless a newer epoch is there by then. How-to pages wait longer.
PAUSE_SECONDS = 1.0


class Commit(NamedTuple):
    """One commit: its kind, when it began and ended (Unix seconds), and what it added.

    `conflicts` and `refusals` are when each try that failed before it did so: it lost to another
    commit, or a constraint refused its rows.
    """

    kind: str
    began: float
    ended: float
    conflicts: list[float]
    refusals: list[float]
    rows: int
    visits: int


def batch(spark: SparkSession, table: Table, number: int, rows: int, there: int) -> DataFrame:
    """Return the rows of a commit, routed by the current epoch: new keys, or some of `there`."""
    function = table.epoch().function
    key = f"concat('w{number}-', id)" if number % 2 == 0 else f"(id * 7919 + {number}) % {there}"
    found = spark.range(rows).selectExpr(f"CAST({key} AS STRING) AS key", "1L AS visits")
    return found.selectExpr(
        f"{channel_sql(function)} AS channel",
        f"{slot_sql(function.key, len(function.slots))} AS slot",
        "*",
    ).coalesce(1)


def write(spark: SparkSession, path: str, number: int, rows: DataFrame) -> None:
    """Append the rows, or add their visits to rows of their keys, wherever these stand."""
    if number % 2 == 0:
        rows.write.format("delta").mode("append").option("mergeSchema", "false").save(path)
        return
    rows.createOrReplaceTempView("batch")
    spark.sql(
        f"MERGE INTO {state.sql_name(path)} AS t USING batch AS b "
        "ON t.slot = b.slot AND t.key = b.key "
        "WHEN MATCHED THEN UPDATE SET visits = t.visits + b.visits"
    )


def commit(spark: SparkSession, table: Table, number: int, rows: int, there: int) -> Commit:
    """Commit one batch, however many tries it takes."""
    path = table.spec.state["visits"].path
    began, conflicts, refusals = time.time(), list[float](), list[float]()
    while True:
        epoch = table.epoch().number
        try:
            write(spark, path, number, batch(spark, table, number, rows, there))
            break
        except CONFLICTS:
            conflicts.append(time.time())
        except SPARK_ERRORS as error:
            if REFUSED not in str(error):
                raise
            refusals.append(time.time())
            time.sleep(0 if table.epoch().number > epoch else PAUSE_SECONDS)
    kind = "append" if number % 2 == 0 else "MERGE"
    added = rows if number % 2 == 0 else 0
    return Commit(kind, began, time.time(), conflicts, refusals, added, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", type=Path, required=True)
    parser.add_argument("--period", type=float, required=True, help="seconds from one to the next")
    parser.add_argument("--rows", type=int, required=True, help="rows of a commit")
    parser.add_argument("--there", type=int, required=True, help="keys in the table: 0, 1, ...")
    options = parser.parse_args()
    table = Table(load_spec(options.spec))
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()), daemon=True).start()
    spark = session("busy writer", **{"spark.log.level": "OFF", "spark.master": "local[1]"})
    number, due = 0, time.time()
    while not stopped.wait(max(0.0, due - time.time())):
        made = commit(spark, table, number, options.rows, options.there)
        print(json.dumps(made._asdict()), flush=True)
        number, due = number + 1, max(due + options.period, time.time())
    spark.stop()


if __name__ == "__main__":
    main()
