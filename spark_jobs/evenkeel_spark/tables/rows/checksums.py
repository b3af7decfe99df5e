"""Counts and checksums of a version of a state table, so that two versions can be compared."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    MapType,
    StringType,
    StructType,
    VarcharType,
    VariantType,
)

from evenkeel.registry.state_view import joined
from evenkeel.spec.custom_merges import merges
from evenkeel.spec.merges import INEXACT
from evenkeel.spec.parts import CHANNEL, SLOT
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.tables.rows.placement_sql import belongs_sql, misplaced_sql, of_keys_sql
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.function.sql import quoted, slot_sql

#: Difference that is taken for rounding, relative to the sum of absolute values: sums of floats in
#: another order differ by less. A higher value would let a changed sum pass.
SUM_TOLERANCE = 1e-9
#: Half of the range of 32 bits, about the mean of what the lower half of a hash adds.
HALF = 2**31
#: Types without a fixed size.
_OF_ANY_SIZE = (
    ArrayType,
    BinaryType,
    CharType,
    MapType,
    StringType,
    StructType,
    VarcharType,
    VariantType,
)


@dataclass(frozen=True)
class Content:
    """Content of rows of a state table, independent of their channel.

    Parameters
    ----------
    rows : number of rows of whole keys
    checksum : sum of xxhash64 of these rows over all columns but the channel
    misplaced : rows, of any key, whose channel or slot is not the function's
    wide : bytes, uncompressed, of misplaced rows and of rows of split keys, in the columns of wide
        values
    all_rows : number of rows of whole and of split keys
    text : bytes, uncompressed, of all rows in other columns without a fixed size
    moved_text : the same, of those rows that `wide` counts
    """

    rows: int
    checksum: int
    misplaced: int
    wide: int = 0
    all_rows: int = 0
    text: int = 0
    moved_text: int = 0


def channel_contents(
    rows: DataFrame,
    function: PartitioningFunction,
    shared: Hashes | None = None,
    width: str | None = None,
    text: str | None = None,
    moving: Collection[str] = (CHANNEL,),
) -> dict[int, Content]:
    """Count the content of each channel of a version of a state table, in one pass.

    Parameters
    ----------
    rows : of the version
    function : says where rows belong
    shared : int64 (K,), hashes of split keys whose partial rows may be merged. Their content is
        compared by `changed_values` instead
    width : SQL of the bytes of a row's wide values; None: it has none
    text : as from `text_sql`
    moving : columns that a move may change, which no checksum has

    Returns
    -------
    Content by channel's number.
    """
    h = F.xxhash64(*(F.col(quoted(c)) for c in rows.columns if c not in moving))
    whole = F.lit(True)
    if shared is not None and len(shared):
        whole = ~F.expr(of_keys_sql(function, shared))
        h = F.when(whole, h)
    slot = slot_sql(function.key, function.row_slots)
    right = F.expr(f"{CHANNEL} <=> {belongs_sql(function)} AND {SLOT} <=> {slot}")
    found = rows.groupBy(CHANNEL).agg(
        F.count_if(whole),
        *(F.sum(half) for half in halves(h)),
        F.count_if(~right),
        F.sum(F.when(~(right & whole), F.expr(width or "0L"))),
        F.count(F.lit(1)),
        F.sum(F.expr(text or "0L")),
        F.sum(F.when(~(right & whole), F.expr(text or "0L"))),
    )
    return {
        r[0]: Content(r[1], _checksum(*r[1:4]), r[4], *(w or 0 for w in r[5:]))
        for r in found.collect()
    }


def halves(hashed: Column) -> tuple[Column, Column]:
    """Split a 64-bit hash into two signed halves (BIGINT).

    One sum of whole hashes can overflow. Two sums of halves are exact, and faster than decimals. A
    half without a sign would overflow, too, at four billion rows in a channel.
    """
    return F.shiftright(hashed, 32), hashed.bitwiseAND(F.lit(0xFFFFFFFF)) - F.lit(HALF)


def _checksum(rows: int, high: int | None, low: int | None) -> int:
    """Return the sum of 64-bit hashes, from the sums of their halves."""
    return ((high or 0) << 32) + (low or 0) + rows * HALF


def text_sql(schema: StructType, wide: Collection[str]) -> str | None:
    """Write SQL (BIGINT) for a row's bytes, uncompressed, in columns without a fixed size.

    Parameters
    ----------
    schema : of the table
    wide : columns that are counted elsewhere

    Returns
    -------
    SQL; None: there is no such column.
    """
    sizes = []
    for field in schema.fields:
        if isinstance(field.dataType, _OF_ANY_SIZE) and field.name not in wide:
            sizes.append(f"coalesce(octet_length(CAST({quoted(field.name)} AS STRING)), 0)")
    return f"CAST({' + '.join(sizes)} AS BIGINT)" if sizes else None


def total_content(channels: Iterable[Content]) -> Content:
    """Add up the content of all channels."""
    parts = list(channels)
    return Content(
        sum(p.rows for p in parts),
        sum(p.checksum for p in parts),
        sum(p.misplaced for p in parts),
        sum(p.wide for p in parts),
        sum(p.all_rows for p in parts),
        sum(p.text for p in parts),
        sum(p.moved_text for p in parts),
    )


def larger(before: Sequence[Content], misplaced: int) -> float:
    """Return by how many bytes the text of moved rows exceeds that of as many mean rows.

    Parameters
    ----------
    before : contents of the versions from which rows moved, at least one
    misplaced : number of rows that moved

    Returns
    -------
    Bytes, uncompressed; 0: they are not larger.
    """
    mean = before[0].text / max(1, before[0].all_rows)
    return max(0.0, sum(b.moved_text for b in before) - misplaced * mean)


def duplicate_keys(rows: DataFrame, function: PartitioningFunction) -> int:
    """Count keys with more than one row; for a split key, more than one on the same channel."""
    by = [F.col(quoted(c.name)) for c in function.key]
    if len(function.split):
        split = F.expr(of_keys_sql(function, function.split.keys))
        by.append(F.when(split, F.col(CHANNEL)))
    # No column of a key has the name of ours.
    counted = rows.groupBy(*by).agg(F.count(F.lit(1)).alias(SLOT))
    return counted.where(F.col(SLOT) > 1).count()


def misplaced_rows(rows: DataFrame, function: PartitioningFunction) -> str | None:
    """Count the rows that are not where the function says, and name one; None: there is none."""
    wrong = rows.where(misplaced_sql(function))
    if (one := wrong.first()) is None:
        return None
    key = ", ".join(f"{c.name} {one[c.name]!r}" for c in function.key)
    place = f"in slot {one[SLOT]} on channel {one[CHANNEL]}"
    return f"{wrong.count():,}, such as that of {key} {place}"


def changed_values(before: DataFrame, after: DataFrame, spec: TableSpec, name: str) -> int:
    """Count keys whose merged partial rows differ between two versions of a state table.

    Sketches are compared by their estimate, sums of floats up to `SUM_TOLERANCE`.

    Parameters
    ----------
    before, after : rows of split keys
    spec : of the table
    name : of the state table, in the spec
    """
    part = spec.state[name]
    columns = list(part.columns.items())
    inexact = [
        i
        for i, (column, c) in enumerate(columns)
        if c.merge == "sum" and before.schema[column].dataType.simpleString() in INEXACT
    ]
    # Parts of both signs may nearly cancel: rounding goes with the parts, not with their sum.
    sizes = [F.sum(F.abs(F.col(quoted(columns[i][0])))).alias(f"size{i}") for i in inexact]
    sides = []
    for tag, rows in (("b", before), ("a", after)):
        values = [
            F.expr(merges()[c.merge].content(quoted(column))).alias(f"{tag}value{i}")
            for i, (column, c) in enumerate(columns)
        ]
        values += [F.col(CHANNEL)[f"size{i}"].alias(f"{tag}size{i}") for i in inexact]
        keys = [F.col(quoted(c)).alias(f"{tag}key{i}") for i, c in enumerate(spec.key)]
        there = F.lit(True).alias(f"{tag}there")
        # No column of a key or of state has the name of ours.
        more = [F.struct(*sizes).alias(CHANNEL)] if inexact else []
        sides.append(joined(rows, part, spec.key, more).select(there, *keys, *values))

    def pair(of: str) -> tuple[Column, Column]:
        return F.col(f"b{of}"), F.col(f"a{of}")

    on, same = F.lit(True), F.lit(True)
    for i in range(len(spec.key)):
        on &= Column.eqNullSafe(*pair(f"key{i}"))
    for i in range(len(columns)):
        one, other = pair(f"value{i}")
        equal = one.eqNullSafe(other)
        if i in inexact:
            less = F.abs(one - other)
            near = (less <= F.greatest(*pair(f"size{i}")) * SUM_TOLERANCE) & (less < math.inf)
            equal |= F.coalesce(near, F.lit(False))
        same &= equal
    there = [column.isNotNull() for column in pair("there")]
    return sides[0].join(sides[1], on, "full_outer").where(~(there[0] & there[1] & same)).count()
