"""Inputs of a window: they are those that the state columns were made of."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from evenkeel.registry.state_view import COLUMNS_PROPERTY
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.events.reader import check_key
from evenkeel_spark.runtime.retry import retry_on_conflict
from evenkeel_spark.tables.column_inputs import INPUTS_PROPERTY, check_made_of, inputs_text
from evenkeel_spark.tables.delta import commits, state
from partitioning.function.function import PartitioningFunction


def check_events(
    spark: SparkSession,
    spec: TableSpec,
    names: Iterable[str],
    events: DataFrame,
    function: PartitioningFunction,
) -> None:
    """Refuse an input that tables were not made of, and note it in tables of earlier versions.

    Raises
    ------
    InputError : the key has other types; or a state column was made of another column
    """
    check_key(events, spec, function.key)
    types = dict(events.dtypes)

    def once(name: str, path: str) -> None:
        found = state.properties(spark, path)
        check_made_of(spec, name, found, types)
        if INPUTS_PROPERTY not in found and COLUMNS_PROPERTY in found:
            noted = state.properties_sql({INPUTS_PROPERTY: inputs_text(spec, name, types)})
            with commits.our_commit(spark, None, None, {"step": "evolve"}) as own:
                own.sql(f"ALTER TABLE {state.sql_name(path)} SET TBLPROPERTIES {noted}")

    for name in names:
        path = spec.state[name].path
        retry_on_conflict(spark, partial(once, name, path), f"{name} ({path})")
