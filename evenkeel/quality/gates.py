"""The two quality gates: the plan before rows move, the state tables after.

    gate = plan_gate(plan, epoch.function, registry.store, run.name, profile=profile)
    run.gate_plan.write(gate.record())
    gate.check(run.url)                             # GateError that names what fails

`tables_gate` likewise, with what the job verify measured. Each leaves a page of Data Docs
in the registry's store. The expectations are in `plan_suite` and `tables_suite`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evenkeel.extras import check_release, require_packages
from evenkeel.quality.budgets import BUDGET_SLACK, write_budget
from evenkeel.quality.data_docs import leave_docs
from evenkeel.quality.expectations import GateResult, validate
from evenkeel.quality.plan_suite import plan_suite
from evenkeel.quality.tables_suite import (
    FILE_OVERHEAD,
    ROWS_OFF,
    WRITTEN_OVER_FAILURE,
    WRITTEN_OVER_WARNING,
    tables_suite,
)
from evenkeel.registry.store import Store
from partitioning.errors import InputError
from partitioning.function.function import PartitioningFunction
from partitioning.planning.plan import Plan
from partitioning.workload.profile import Profile

#: Packages that only the extra `quality` installs.
_NEEDED = ("great_expectations", "pandas")
_MEASURES = (
    "table",
    "rows_before",
    "rows_after",
    "checksum_before",
    "checksum_after",
    "misplaced",
    "duplicates",
    "bytes_predicted",
    "bytes_written",
    "files_written",
)
_OPTIONAL = ("rows_weighed", "merged_changed", "copies_missing")
_COUNTS = ("channel", "rows_predicted", "rows")


def _require_quality() -> None:
    """Check that Great Expectations is here, and new enough, before it is imported."""
    require_packages("quality", *_NEEDED)
    check_release("great-expectations")


def plan_gate(
    plan: Plan,
    previous: PartitioningFunction,
    store: Store | None = None,
    run: str = "",
    *,
    profile: Profile | None = None,
    going_back: bool = False,
) -> GateResult:
    """Run suite "before" on the plan. A failure raises nothing: see `GateResult.check`.

    Parameters
    ----------
    plan : to validate
    previous : the function of the epoch that the plan starts from
    store : the registry's store, for Data Docs; None: no page
    run : name of the run, for Data Docs
    profile : that the plan was made from; if given, its loads are computed again and compared
    going_back : a person asked for an earlier placement (roll back). Then the plan need not be
        even enough, nor more even than now
    """
    _require_quality()
    from evenkeel.quality import plan_frames

    frames = {
        "channels": plan_frames.channels(plan, profile),
        "placement": plan_frames.placement(plan, previous),
        "moves": plan_frames.moves(plan),
        "plan": plan_frames.summary(plan),
    }
    checks = plan_suite(
        plan,
        previous,
        weighed=profile is not None,
        going_back=going_back,
    )
    return leave_docs(validate("before", frames, checks), store, run, plan)


def tables_gate(
    measures: Sequence[Mapping[str, Any]],
    channels: Sequence[Mapping[str, Any]],
    plan: Plan,
    store: Store | None = None,
    run: str = "",
) -> GateResult:
    """Run suite "after" on the state tables. A failure raises nothing: see `GateResult.check`.

    Parameters
    ----------
    measures : one mapping for each state table:
        table : str, its name in the spec
        rows_before, rows_after : int, rows in the version just before our UPDATE and in that of
            our (last) UPDATE
        checksum_before, checksum_after : str, decimal digits: content checksum (sum of xxhash64
            over all columns but channel) of the same two versions
        misplaced : int, rows whose channel is not the new function's
        duplicates : int, keys with more than one row; for a split key, more than one row on one
            channel
        bytes_predicted : float, bytes of state that were to move (weighed again if the table grew)
        bytes_written, files_written : int, numAddedBytes and numAddedFiles of this plan's UPDATE
            commits
        merged_changed : int, optional: split keys whose merged partial rows differ from before;
            rows and checksums are then those of whole keys
        copies_missing : int, optional, for a table that is copied to all owners of a split key:
            how many owners have no copy, or one that differs from the others
        rows_weighed : int, optional: rows of the table when the plan's profile was weighed. Rows
            added since may be in any channel
    channels : one mapping for each channel:
        channel : int, its number
        rows_predicted : float, rows of all tables that it should hold by the new function
        rows : int, rows that it holds
    plan : the plan that was carried out
    store, run : as in `plan_gate`

    Raises
    ------
    InputError : a measure is missing: what was not measured must not pass
    """
    _require_quality()
    import pandas as pd

    _complete(measures, _MEASURES, "measures")
    _complete(channels, _COUNTS, "channels")
    tables = pd.DataFrame([dict(m) for m in measures], columns=[*_MEASURES, *_OPTIONAL])
    counts = pd.DataFrame([dict(c) for c in channels], columns=list(_COUNTS))
    for name in ("checksum_before", "checksum_after"):
        tables[name] = tables[name].map(str)
    predicted = tables["bytes_predicted"].astype(float)
    overhead = tables["files_written"].astype(float) * FILE_OVERHEAD
    tables["bytes_close"] = predicted * (1 + WRITTEN_OVER_WARNING) + overhead
    tables["bytes_far"] = predicted * (1 + WRITTEN_OVER_FAILURE) + overhead
    weighed = pd.to_numeric(tables["rows_weighed"]).fillna(tables["rows_before"])
    grown = float((tables["rows_before"] - weighed).abs().sum())
    rows = counts["rows_predicted"].astype(float)
    counts["rows_off"] = (counts["rows"].astype(float) - rows).abs()
    counts["rows_off_allowed"] = np.maximum(rows * ROWS_OFF, 1.0) + grown
    budget = write_budget(plan)
    checks = tables_suite(plan.tables or set(tables["table"]), measures, budget)
    frames = {"tables": tables, "channels": counts}
    if budget is not None:
        most = budget + BUDGET_SLACK + float(overhead.sum())
        size = float(tables["bytes_written"].sum())
        frames["written"] = pd.DataFrame({"budget": [most], "bytes": [size]})
    result = validate("after", frames, checks)
    return leave_docs(result, store, run, plan)


def _complete(rows: Sequence[Mapping[str, Any]], names: Sequence[str], where: str) -> None:
    if not rows:
        raise InputError("nothing was measured", where, "Run the job that measures again")
    for row in rows:
        missing = [n for n in names if row.get(n) is None]
        if missing:
            raise InputError(
                f"{', '.join(missing)} missing for {row.get('table', row.get('channel'))!r}",
                where,
                "Every measure is needed: what was not measured cannot pass",
            )
