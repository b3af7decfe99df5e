"""Suite "after": what must hold of the state tables once rows have moved.

docs/GATES.md says what each expectation means, and what to do when it fails.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from evenkeel.quality.expectations import WARNING, Check, expect
from evenkeel.render.formatting import bytes_text

#: Part of the prediction by which bytes written may exceed it without a warning; see
#: docs/benchmarks/moving.md. A plan's budget leaves room for it: raising it lets plans move less.
WRITTEN_OVER_WARNING = 0.02
#: The same, from which on the gate fails. Then the UPDATE has rewritten rows that did not move, as
#: it does without deletion vectors (10 times the bytes, measured).
WRITTEN_OVER_FAILURE = 0.5
#: Bytes of a Parquet file that do not depend on its rows (footer, schema, statistics). They are
#: allowed beside the prediction. Measured, Spark 4.2, one row: 1.7 kB for 6 columns, 5.3 kB for 20.
FILE_OVERHEAD = 8192
#: Part of a channel's predicted rows that may be missing or too many without a warning.
ROWS_OFF = 0.01


def tables_suite(
    tables: Collection[str], measures: Sequence[Mapping[str, Any]], budget: float | None
) -> list[Check]:
    """Build the checks for these state tables.

    Parameters
    ----------
    tables : names in the spec
    measures : as in `gates.tables_gate`; used only to show what was found when all is well
    budget : bytes that may be written in all tables together; None: no limit
    """
    checks = [*_measured(tables), *_unchanged(measures), *_written(measures)]
    checks += _channel_rows()
    if budget is not None:
        checks += _held(measures, budget)
    if any("merged_changed" in m for m in measures):
        checks += _merged()
    if any("copies_missing" in m for m in measures):
        checks += _copied()
    return checks


def _measured(tables: Collection[str]) -> list[Check]:
    """Build the checks that exactly the plan's state tables were measured."""
    return [
        expect(
            "tables",
            "ExpectTableRowCountToEqual",
            "Every state table was measured",
            f"{len(tables)}",
            value=len(tables),
        ),
        expect(
            "tables",
            "ExpectColumnValuesToBeInSet",
            "Only the plan's state tables were measured",
            ", ".join(sorted(tables)),
            column="table",
            value_set=sorted(tables),
        ),
    ]


def _unchanged(measures: Sequence[Mapping[str, Any]]) -> list[Check]:
    """Build the checks that only the rows' channels have changed."""

    def found(text: str) -> str:
        return "; ".join(f"{m['table']}: {text.format(**m)}" for m in measures)

    return [
        expect(
            "tables",
            "ExpectColumnPairValuesToBeEqual",
            "No row is lost and none appears",
            "as many rows as before",
            detail=found("{rows_before:,} rows before, {rows_after:,} after"),
            column_A="rows_before",
            column_B="rows_after",
        ),
        expect(
            "tables",
            "ExpectColumnPairValuesToBeEqual",
            "No value changes but the channel",
            "the checksum of before",
            detail=found("{checksum_before} before, {checksum_after} after"),
            column_A="checksum_before",
            column_B="checksum_after",
        ),
        expect(
            "tables",
            "ExpectColumnMaxToBeBetween",
            "Every row is where the function says",
            "0 rows elsewhere",
            column="misplaced",
            min_value=0,
            max_value=0,
        ),
        expect(
            "tables",
            "ExpectColumnMaxToBeBetween",
            "No key stands in two rows",
            "0 such keys",
            column="duplicates",
            min_value=0,
            max_value=0,
        ),
    ]


def _written(measures: Sequence[Mapping[str, Any]]) -> list[Check]:
    """Build the checks of bytes written against bytes predicted."""
    footers = _footers(measures)
    return [
        expect(
            "tables",
            "ExpectColumnPairValuesAToBeGreaterThanB",
            "Only what was to move was written",
            f"at most {1 + WRITTEN_OVER_FAILURE:g} of the prediction",
            detail=footers,
            column_A="bytes_far",
            column_B="bytes_written",
            or_equal=True,
        ),
        expect(
            "tables",
            "ExpectColumnPairValuesAToBeGreaterThanB",
            "The bytes written are as predicted",
            f"at most {1 + WRITTEN_OVER_WARNING:g} of the prediction",
            detail=footers,
            severity=WARNING,
            column_A="bytes_close",
            column_B="bytes_written",
            or_equal=True,
        ),
    ]


def _channel_rows() -> list[Check]:
    """Build the check of each channel's rows."""
    return [
        expect(
            "channels",
            "ExpectColumnPairValuesAToBeGreaterThanB",
            "Each channel holds the rows that were predicted",
            f"within {ROWS_OFF:.0%}",
            detail="or one row, or what the tables have grown by since they were weighed",
            severity=WARNING,
            column_A="rows_off_allowed",
            column_B="rows_off",
            or_equal=True,
        ),
    ]


def _held(measures: Sequence[Mapping[str, Any]], budget: float) -> list[Check]:
    """Build the check of bytes written against the budget, in bytes."""
    footers = _footers(measures)
    return [
        expect(
            "written",
            "ExpectColumnPairValuesAToBeGreaterThanB",
            "No more was written than the budget",
            f"at most {budget:,.0f} bytes",
            detail=footers,
            column_A="budget",
            column_B="bytes",
            or_equal=True,
        ),
    ]


def _merged() -> list[Check]:
    """Build the check of split keys whose partial rows were merged."""
    return [
        expect(
            "tables",
            "ExpectColumnMaxToBeBetween",
            "No split key's state changes when its partials are merged",
            "0 such keys",
            column="merged_changed",
            min_value=0,
            max_value=0,
        ),
    ]


def _copied() -> list[Check]:
    """Build the check of tables whose rows are copied to all owners of a split key."""
    return [
        expect(
            "tables",
            "ExpectColumnMaxToBeBetween",
            "Every owner of a split key has its copy",
            "0 owners without",
            column="copies_missing",
            min_value=0,
            max_value=0,
        ),
    ]


def _footers(measures: Sequence[Mapping[str, Any]]) -> str:
    """Say what was written, and what is allowed on top of it for footers of files."""
    written = "; ".join(
        f"{m['table']}: {bytes_text(m['bytes_written'])} in {m['files_written']:,} files, "
        f"{bytes_text(m['bytes_predicted'])} predicted"
        for m in measures
    )
    return f"and {FILE_OVERHEAD:,} bytes a file, for footers; {written}"
