"""State as its readers want it: one row a key, whichever keys are split.

Native Spark expressions on a DataFrame, wherever it was read from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenkeel.own_merges import merges
from evenkeel.spec import SLOT
from evenkeel.spec_parts import StateTable
from partitioning.function import PartitioningFunction
from partitioning.parts import listed_sql
from partitioning.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def merged(table: StateTable) -> dict[str, str]:
    """SQL aggregate of partials by state column."""
    return {name: merges()[c.merge].every(quoted(name)) for name, c in table.columns.items()}


def width_sql(table: StateTable) -> str | None:
    """SQL (BIGINT) for the bytes, uncompressed, of those columns of a row of state that may have
    many; None: there is none."""
    widths = []
    for name, column in table.columns.items():
        if (width := merges()[column.merge].width) is not None:
            widths.append(f"coalesce({width(quoted(name))}, 0)")
    return f"CAST({' + '.join(widths)} AS BIGINT)" if widths else None


def joined(rows: DataFrame, table: StateTable, key: Sequence[str]) -> DataFrame:
    """Rows of a state table with all rows of a key merged into one: slot, key, state columns."""
    from pyspark.sql import functions as F

    columns = [
        F.expr(sql).cast(rows.schema[name].dataType).alias(name)
        for name, sql in merged(table).items()
    ]
    return rows.groupBy(SLOT, *(F.col(quoted(c)) for c in key)).agg(*columns)


def one_row_a_key(rows: DataFrame, table: StateTable, function: PartitioningFunction) -> DataFrame:
    """Rows of a state table with the partials of split keys merged: slot, key, state columns.

    Rows of whole keys pass as they are, without a shuffle; where no key is split, all do.

    Parameters
    ----------
    rows : of the state table `table`, as it stands by `function`; filtered by key at will, but not
        by channel
    """
    from pyspark.sql import functions as F

    key = [c.name for c in function.key]
    shown = [F.col(quoted(c)) for c in (SLOT, *key, *table.columns)]
    if not len(function.split):
        return rows.select(*shown)
    split = F.expr(listed_sql(function.key, len(function.slots), function.split.keys, SLOT))
    return rows.where(~split).select(*shown).unionByName(joined(rows.where(split), table, key))
