"""Compare adopt with a plain CREATE TABLE AS SELECT, and time release at two sizes.

`python -m benchmarks.spark.adopt` adopts orders of a team (many rows a key), and reads and writes
the same rows by a CTAS. Both start from the same files, hard-linked, and run in turn. The last line
is what the dry run of adopt reckons with.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from itertools import count
from pathlib import Path

import yaml
from pyspark.sql import SparkSession

from benchmarks.spark.pairs import compare, seconds
from evenkeel.spec.loading import load_spec
from evenkeel.table import Table
from evenkeel_spark.adoption.adopt import adopt
from evenkeel_spark.adoption.release import release
from evenkeel_spark.jobs.generate import zipf_rows
from evenkeel_spark.runtime.session import session
from evenkeel_spark.tables.delta import state

CHANNELS, SLOTS = 10, 4096


def team_table(spark: SparkSession, folder: Path, rows: int) -> Table:
    """Make a table of orders as a team would, and the spec to adopt it by."""
    spec = {
        "table": "bench",
        "key": ["key"],
        "input": {"path": "orders", "format": "delta"},
        "state": {"orders": {"path": "orders", "rows": "many"}},
        "registry": "registry",
        "channels": CHANNELS,
        "slots": SLOTS,
    }
    folder.mkdir()
    (folder / "bench.yaml").write_text(yaml.safe_dump(spec))
    orders = zipf_rows(spark, rows, rows // 5, 0.9).selectExpr(
        "CAST(key AS STRING) AS key",
        "monotonically_increasing_id() AS id",
        "CAST(rand(1) * 1000 AS BIGINT) AS amount",
        *(f"rand({i}) AS measure{i}" for i in range(4)),
        "uuid(3) AS tag",
    )
    orders.write.format("delta").save(str(folder / "orders"))
    return Table(load_spec(folder / "bench.yaml"))


def copied(template: Table, folder: Path) -> Table:
    """Copy a table into another folder, its files hard-linked."""
    home = Path(template.spec.state["orders"].path).parent
    shutil.copytree(home, folder, copy_function=os.link)
    return Table(load_spec(folder / "bench.yaml"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    spark = session("adopt benchmark")
    with tempfile.TemporaryDirectory() as home:
        template = team_table(spark, Path(home, "template"), options.rows)
        path, number = template.spec.state["orders"].path, count()
        size = int(state.snapshot(spark, path).sizeInBytes())
        adopted: list[Table] = []
        took: list[float] = []

        def ours() -> None:
            table = copied(template, Path(home, f"adopted{next(number)}"))
            took.append(seconds(lambda: adopt(spark, table)))
            adopted.append(table)
            for old in adopted[:-1]:
                shutil.rmtree(Path(old.spec.state["orders"].path).parent, ignore_errors=True)

        def ctas() -> None:
            made = f"{home}/ctas"
            spark.sql(
                f"CREATE TABLE {state.sql_name(made)} USING delta AS "
                f"SELECT * FROM {state.sql_name(path)}"
            )
            shutil.rmtree(made)

        what = f"adopt of {options.rows:,} rows ({size / 1e6:.0f} MB)"
        compare(what, ours, "a plain CTAS", ctas, options.runs)
        small = team_table(spark, Path(home, "small"), options.rows // 10)
        adopt(spark, small)
        for table, rows in ((adopted[-1], options.rows), (small, options.rows // 10)):
            print(f"release of {rows:,} rows: {seconds(lambda t=table: release(spark, t)):.2f} s")
        for table, rows in ((adopted[-1], options.rows), (small, options.rows // 10)):
            again = seconds(lambda t=table: adopt(spark, t))
            print(f"adoption again of {rows:,} rows, which fit: {again:.2f} s")
        cores = spark.sparkContext.defaultParallelism
        speed = size / statistics.median(took[1:]) / cores
        print(f"rewritten: {speed / 1e6:.1f} MB a second and core, on {cores} cores", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
