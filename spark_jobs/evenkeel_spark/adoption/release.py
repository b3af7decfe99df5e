"""Release: take Evenkeel out of tables. They are the team's as before.

The fence and the properties go in one commit a table. The columns slot and channel stay, unless
they are asked to go: that rewrites the table.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from evenkeel.spec.table_spec import CHANNEL, SLOT
from evenkeel.table import Table
from evenkeel_spark.adoption.adopt import BEFORE_PROPERTY
from evenkeel_spark.adoption.rewrite import Layout, change
from evenkeel_spark.runtime.command import say
from evenkeel_spark.tables.delta import commits, constraints, state
from evenkeel_spark.tables.delta.write_session import own_session
from partitioning.errors import FenceError, InputError

#: Table properties that begin so are Evenkeel's.
_OURS = "evenkeel."


def release(
    spark: SparkSession, table: Table, drop_columns: bool = False, dry_run: bool = False
) -> list[str]:
    """Release all state tables of a spec. A second run changes nothing.

    Parameters
    ----------
    drop_columns : rewrite the tables without slot and channel, partitioned as before
    dry_run : say what would be done, and change nothing

    Returns
    -------
    Names of the state tables that were released, or would be.

    Raises
    ------
    FenceError : a migration is under way or was broken off, or others commit meanwhile
    InputError : a table that is not there, or belongs to another spec
    """
    spec, spark = table.spec, own_session(spark)
    numbers = table.registry.numbers()
    epoch = constraints.epoch_name(table.epoch().number if numbers else 0)
    found = []
    for name, part in spec.state.items():
        if state.table_version(spark, part.path) < 0:
            raise InputError(
                "expected a Delta table, found none", f"{name} ({part.path})", "Correct the path"
            )
        properties = state.properties(spark, part.path)
        owner = properties.get(state.TABLE_PROPERTY)
        if owner is None and not (drop_columns and CHANNEL in _names(spark, part.path)):
            say(f"{name}: is not Evenkeel's: nothing to do")
            continue
        if owner not in (None, spec.table):
            raise InputError(
                f"belongs to table {owner!r}", f"{name} ({part.path})", "Correct the path"
            )
        stands = constraints.our_constraints(spark, part.path)
        if owner is not None and not stands <= {epoch}:
            raise FenceError(
                f"stands under {', '.join(sorted(stands))}: state is moving, or was left half-way",
                f"{name} ({part.path})",
                f"Let the run end, or {constraints.mend(spec.table)}; then release",
            )
        found.append(name)
    for name in found:
        what = "its fence, properties" + (", slot and channel" if drop_columns else "")
        say(f"{name}: {'would lose' if dry_run else 'loses'} {what}")
        if not dry_run:
            _release(spark, table, name, drop_columns)
    return found


def _names(spark: SparkSession, path: str) -> list[str]:
    return state.schema(spark, path).fieldNames()


def _release(spark: SparkSession, table: Table, name: str, drop_columns: bool) -> None:
    path = table.spec.state[name].path
    version = state.table_version(spark, path)
    properties = state.properties(spark, path)
    ours = [
        p for p in properties if p.startswith((_OURS, constraints.property_name(constraints.OURS)))
    ]
    # Who drops the columns later still finds how the table was partitioned.
    kept = () if drop_columns else (BEFORE_PROPERTY,)
    layout = Layout(removed=[p for p in ours if p not in kept])
    with commits.commit_session(spark, None, None, {"step": "release"}) as own:
        rows = None
        if drop_columns and CHANNEL in _names(spark, path):
            before = properties.get(BEFORE_PROPERTY, "")
            partitions = [c for c in before.split(",") if c]
            layout = Layout(removed=layout.removed, dropped=(SLOT, CHANNEL), partitions=partitions)
            rows = state.read_version(own, path, version).drop(SLOT, CHANNEL)
        try:
            change(own, path, version, layout, rows)
        except commits.CONFLICTS as error:
            raise FenceError(
                f"somebody wrote meanwhile ({str(error).strip().splitlines()[0]})",
                f"{name} ({path})",
                "Run it again; where that goes on, pause its writers",
            ) from error
    say(f"{name}: released")
