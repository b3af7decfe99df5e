"""Suite "after": what must hold of the state tables once rows have moved.

See docs/GATES.md for what each expectation means and what to do when it fails.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from evenkeel.quality.expectations import WARNING, Check, check
from evenkeel.render.formatting import bytes_text

#: Bytes written may exceed the prediction by this share, as docs/BENCHMARKS.md promises.
CLOSE = 0.02
#: ... and from this share on, the UPDATE has written rows that were not to move, as it does
#: without deletion vectors (10 times as much, measured).
FAR = 0.5
#: Bytes that a Parquet file of state costs whatever it holds (footer, schema, statistics):
#: 1.7 kB for 6 columns, 5.3 kB for 20 (measured, Spark 4.2, one row).
FILE_OVERHEAD = 8192
#: Share of a channel's predicted rows that may be missing or too many.
ROWS_OFF = 0.01


def tables_suite(
    tables: Collection[str], measures: Sequence[Mapping[str, Any]], budget: float | None = None
) -> list[Check]:
    """The checks for these state tables.

    Parameters
    ----------
    measures : as in `gates.tables_gate`; only to tell what was found where all is well
    budget : bytes that might be written, in all tables; None: any number
    """

    def found(text: str) -> str:
        return "; ".join(f"{m['table']}: {text.format(**m)}" for m in measures)

    written = "; ".join(
        f"{m['table']}: {bytes_text(m['bytes_written'])} in {m['files_written']:,} files, "
        f"{bytes_text(m['bytes_predicted'])} predicted"
        for m in measures
    )
    merged = [
        check(
            "tables",
            "ExpectColumnMaxToBeBetween",
            "No split key's state changes when its partials are merged",
            "0 such keys",
            column="merged_changed",
            min_value=0,
            max_value=0,
        )
    ]
    copied = [
        check(
            "tables",
            "ExpectColumnMaxToBeBetween",
            "Every owner of a split key has its copy",
            "0 owners without",
            column="copies_missing",
            min_value=0,
            max_value=0,
        )
    ]
    footers = f"and {FILE_OVERHEAD:,} bytes a file, for footers; {written}"
    held = [
        check(
            "written",
            "ExpectColumnPairValuesAToBeGreaterThanB",
            "No more was written than the budget",
            f"at most {budget or 0:,.0f} bytes",
            detail=footers,
            column_A="budget",
            column_B="bytes",
            or_equal=True,
        )
    ]
    return [
        check(
            "tables",
            "ExpectTableRowCountToEqual",
            "Every state table was measured",
            f"{len(tables)}",
            value=len(tables),
        ),
        check(
            "tables",
            "ExpectColumnValuesToBeInSet",
            "Only the plan's state tables were measured",
            ", ".join(sorted(tables)),
            column="table",
            value_set=sorted(tables),
        ),
        check(
            "tables",
            "ExpectColumnPairValuesToBeEqual",
            "No row is lost and none appears",
            "as many rows as before",
            detail=found("{rows_before:,} rows before, {rows_after:,} after"),
            column_A="rows_before",
            column_B="rows_after",
        ),
        check(
            "tables",
            "ExpectColumnPairValuesToBeEqual",
            "No value changes but the channel",
            "the checksum of before",
            detail=found("{checksum_before} before, {checksum_after} after"),
            column_A="checksum_before",
            column_B="checksum_after",
        ),
        check(
            "tables",
            "ExpectColumnMaxToBeBetween",
            "Every row is where the function says",
            "0 rows elsewhere",
            column="misplaced",
            min_value=0,
            max_value=0,
        ),
        check(
            "tables",
            "ExpectColumnMaxToBeBetween",
            "No key stands in two rows",
            "0 such keys",
            column="duplicates",
            min_value=0,
            max_value=0,
        ),
        check(
            "tables",
            "ExpectColumnPairValuesAToBeGreaterThanB",
            "Only what was to move was written",
            f"at most {1 + FAR:g} of the prediction",
            detail=footers,
            column_A="bytes_far",
            column_B="bytes_written",
            or_equal=True,
        ),
        check(
            "tables",
            "ExpectColumnPairValuesAToBeGreaterThanB",
            "The bytes written are as predicted",
            f"at most {1 + CLOSE:g} of the prediction",
            detail=footers,
            severity=WARNING,
            column_A="bytes_close",
            column_B="bytes_written",
            or_equal=True,
        ),
        check(
            "channels",
            "ExpectColumnPairValuesAToBeGreaterThanB",
            "Each channel holds the rows that were predicted",
            f"within {ROWS_OFF:.0%}",
            detail="or one row, or what the table has grown by since it was weighed",
            severity=WARNING,
            column_A="rows_off_allowed",
            column_B="rows_off",
            or_equal=True,
        ),
        *(held if budget is not None else []),
        *(merged if any("merged_changed" in m for m in measures) else []),
        *(copied if any("copies_missing" in m for m in measures) else []),
    ]
