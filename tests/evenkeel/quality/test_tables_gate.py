"""The gate on the tables: each expectation fails when what it is about is doctored."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from evenkeel.quality.budgets import plan_budget, write_budget
from evenkeel.quality.data_docs import pages
from evenkeel.quality.gates import plan_gate, tables_gate
from evenkeel.quality.tables_suite import FILE_OVERHEAD
from evenkeel.registry.store import Store
from partitioning.errors import GateError, InputError
from tests.support.cases.gates import COUNTS, PLAN, PREVIOUS, failing

MEASURE: dict[str, Any] = {
    "table": "words",
    "rows_before": 400,
    "rows_after": 400,
    "checksum_before": "-98765432109876543210",
    "checksum_after": "-98765432109876543210",
    "misplaced": 0,
    "duplicates": 0,
    "bytes_predicted": 1e6,
    "bytes_written": 1_015_000,
    "files_written": 4,
}


def measured(**changes: Any) -> list[dict[str, Any]]:
    return [{**MEASURE, **changes}]


AFTER: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "Every state table was measured": ([MEASURE, MEASURE], COUNTS),
    "Only the plan's state tables were measured": (measured(table="birds"), COUNTS),
    "No row is lost and none appears": (measured(rows_after=399), COUNTS),
    "No value changes but the channel": (measured(checksum_after="-98765432109876543211"), COUNTS),
    "Every row is where the function says": (measured(misplaced=1), COUNTS),
    "No key stands in two rows": (measured(duplicates=2), COUNTS),
    "Only what was to move was written": (measured(bytes_written=10_000_000), COUNTS),
    "The bytes written are as predicted": (measured(bytes_written=1_100_000), COUNTS),
    "Each channel holds the rows that were predicted": (
        [MEASURE],
        [{**COUNTS[0], "rows": 110}, *COUNTS[1:]],
    ),
}
WARNINGS = {
    "The bytes written are as predicted",
    "Each channel holds the rows that were predicted",
}


def test_the_budget_is_asked_of_what_all_tables_have_written() -> None:
    what = "No more was written than the budget"
    two = [MEASURE, {**MEASURE, "table": "birds"}]
    counts = [{**c, "rows_predicted": 199.2, "rows": 200} for c in COUNTS]
    footers = sum(m["files_written"] for m in two) * FILE_OVERHEAD
    exact = 2 * MEASURE["bytes_written"] - footers
    for most, over in ((exact, set()), (exact - 1, {what})):
        plan = replace(PLAN, tables={"words": 1, "birds": 1}, budget=plan_budget(most))
        assert write_budget(plan) == pytest.approx(most)
        assert failing(tables_gate(two, counts, plan)) == over


def test_good_tables_pass() -> None:
    gate = tables_gate([MEASURE], COUNTS, PLAN)
    assert failing(gate) == set()
    assert {r.what for r in gate.results} == set(AFTER)
    assert json.dumps(gate.to_dict(), allow_nan=False)


@pytest.mark.parametrize("what", AFTER)
def test_each_expectation_on_the_tables_can_fail_and_is_named(what: str) -> None:
    gate = tables_gate(*AFTER[what], PLAN)
    assert what in failing(gate)
    assert gate.to_dict()["warnings"] == len(failing(gate) & WARNINGS)
    if what in WARNINGS:
        assert gate.success
        gate.check()
        assert gate.passed == f"passed, with a warning: {what}"
    else:
        with pytest.raises(GateError, match="^Table checks: .*" + re.escape(what)):
            gate.check()


def test_small_tables_may_write_footers_and_growth_may_stand_anywhere() -> None:
    small = measured(bytes_predicted=300.0, bytes_written=300 + 4 * FILE_OVERHEAD, rows_weighed=350)
    counts = [{**c, "rows_predicted": 87.5} for c in COUNTS]
    assert failing(tables_gate(small, counts, PLAN)) == set()


def test_what_was_not_measured_does_not_pass() -> None:
    with pytest.raises(InputError, match="nothing was measured"):
        tables_gate([], COUNTS, PLAN)
    with pytest.raises(InputError, match="duplicates missing for 'words'"):
        tables_gate(measured(duplicates=None), COUNTS, PLAN)


def test_docs_keep_the_history_on_any_store() -> None:
    store = Store("memory://gates-registry")
    passed = plan_gate(PLAN, PREVIOUS, store, "manual__2013-01-29")
    failed = tables_gate(measured(misplaced=7), COUNTS, PLAN, store, "manual__2013-01-29")
    found = pages(store)
    assert {(p.suite, p.passed, p.run) for p in found} == {
        ("before", True, "manual__2013-01-29"),
        ("after", False, "manual__2013-01-29"),
    }
    index = store.read("data_docs/index.html").decode()
    for gate in (passed, failed):
        assert gate.docs is not None
        assert gate.docs.removeprefix("data_docs/") in index
        page = store.read(gate.docs).decode()
        assert "<script" not in page
        assert not re.search(r"(src|href|url|@import)\W{1,3}(https?:)?//", page)
    assert "Every row is where the function says" in store.read(str(failed.docs)).decode()
