"""Expectations in plain words, run by Great Expectations on small frames, and their results.

Only this module runs Great Expectations. Its import takes seconds, so it is imported when a gate
runs. Its context is in memory, draws no progress bars and sends no usage data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from evenkeel.registry.files.outcome_records import GateRecord
from evenkeel.render.formatting import checks_text
from partitioning.errors import GateError

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations.core import ExpectationSuiteValidationResult

#: Severity of an expectation that fails the gate.
CRITICAL = "critical"
#: Severity of an expectation that is reported and does not fail the gate.
WARNING = "warning"
# Failing rows that a result shows: more of them make reports longer. Each row shows the columns
# below and those that the check names.
_EXAMPLES = 5
_IDENTITY = ("table", "kind", "item", "channel")


@dataclass(frozen=True)
class Check:
    """One expectation of a suite.

    Parameters
    ----------
    frame : name of the frame that it is about
    expectation : class name in Great Expectations
    what : the expectation in plain words
    expected : its bound, in words
    kwargs : arguments of the class
    detail : why the bound is what it is
    severity : CRITICAL or WARNING
    """

    frame: str
    expectation: str
    what: str
    expected: str
    kwargs: Mapping[str, Any]
    detail: str = ""
    severity: str = CRITICAL


def expect(
    frame: str,
    expectation: str,
    what: str,
    expected: str,
    *,
    detail: str = "",
    severity: str = CRITICAL,
    **kwargs: Any,
) -> Check:
    """Build a `Check`, with the expectation's own arguments as keywords."""
    return Check(frame, expectation, what, expected, kwargs, detail, severity)


@dataclass(frozen=True)
class ExpectationResult:
    """The result of one check.

    Parameters
    ----------
    observed : the aggregate's value, or "n of m" rows that fail
    examples : the first rows that fail, by column
    success : whether the expectation holds
    others : as in `Check`
    """

    frame: str
    expectation: str
    what: str
    expected: str
    detail: str
    severity: str
    observed: float | str
    examples: tuple[Mapping[str, Any], ...]
    kwargs: Mapping[str, Any]
    success: bool


@dataclass(frozen=True)
class GateResult:
    """The result of a suite. It succeeds unless a critical expectation fails.

    Parameters
    ----------
    suite : "before" (the plan) or "after" (the tables)
    results : one for each check, in the suite's order
    docs : name of its page in the registry's store; None: there is no page
    raw : Great Expectations' own results by frame
    """

    suite: str
    results: tuple[ExpectationResult, ...]
    docs: str | None = None
    raw: Mapping[str, ExpectationSuiteValidationResult] = field(default_factory=dict, repr=False)

    @property
    def success(self) -> bool:
        """Whether every critical expectation holds."""
        return all(r.success for r in self.results if r.severity == CRITICAL)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict, every expectation and Great Expectations' results as JSON values.

        All but `docs` is the same at each retry, so a retry writes the same file.
        """
        results = [asdict(r) for r in self.results]
        return plain(
            {
                "suite": self.suite,
                "success": self.success,
                "warnings": sum(not r.success and r.severity == WARNING for r in self.results),
                "results": results,
                "docs": self.docs,
                "great_expectations": {n: _steady(r.to_json_dict()) for n, r in self.raw.items()},
            }
        )

    def record(self) -> GateRecord:
        """Return what the gate's file holds."""
        return GateRecord(**self.to_dict())

    @property
    def passed(self) -> str:
        """Sentence on a gate that has passed."""
        only = [r.what for r in self.results if not r.success]
        return f"passed, with a warning: {'; '.join(only)}" if only else "every expectation holds"

    def check(self, where: str | None = None) -> None:
        """Raise GateError if a critical expectation fails, and name all that fail.

        Parameters
        ----------
        where : the place that the error names; None: the checks
        """
        failed = [r for r in self.results if not r.success and r.severity == CRITICAL]
        if failed:
            reasons = "; ".join(f"{r.what} (expected {r.expected}, {_seen(r)})" for r in failed)
            raise GateError(
                f"{len(failed)} of {len(self.results)} expectations fail: {reasons}",
                where or checks_text(self.suite),
                "Correct what the expectations name, then run again",
            )


def validate(suite: str, frames: Mapping[str, pd.DataFrame], checks: Sequence[Check]) -> GateResult:
    """Run each check on its frame.

    A check that cannot be evaluated counts as failed: what was not measured must not pass.

    Parameters
    ----------
    suite : its name
    frames : by the name that checks use
    checks : each on one of the frames

    Returns
    -------
    Results in the order of `checks`.
    """
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    context = gx.get_context(
        mode="ephemeral",
        project_config=DataContextConfig(
            analytics_enabled=False,
            progress_bars=ProgressBarsConfig(globally=False),
            store_backend_defaults=InMemoryStoreBackendDefaults(),
        ),
    )
    source = context.data_sources.add_pandas("evenkeel")
    outcomes: dict[int, ExpectationResult] = {}
    raw = {}
    for name, frame in frames.items():
        mine = {i: c for i, c in enumerate(checks) if c.frame == name}
        if not mine:
            continue
        expectations = gx.ExpectationSuite(
            name=f"{suite}.{name}", expectations=[_expectation(i, c) for i, c in mine.items()]
        )
        batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe(name)
        raw[name] = batch.get_batch({"dataframe": frame}).validate(
            expectations, result_format={"result_format": "SUMMARY"}
        )
        for result in raw[name].results:
            # Great Expectations' renderer fails on NumPy 2's number types.
            result.result = plain(result.result)
            place = int(result.expectation_config.meta["evenkeel"])
            outcomes[place] = _outcome(mine[place], result.to_json_dict(), frame)
    return GateResult(suite, tuple(outcomes[i] for i in range(len(checks))), raw=raw)


def plain(value: Any) -> Any:
    """Convert to JSON values: NumPy's numbers to Python's, non-finite numbers to text."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _expectation(place: int, check: Check) -> Any:
    import great_expectations.expectations as gxe

    kind = getattr(gxe, check.expectation)
    notes = f"{check.what}: expected {check.expected}. {check.detail}".strip()
    return kind(**check.kwargs, severity=check.severity, notes=notes, meta={"evenkeel": place})


def _outcome(check: Check, result: Mapping[str, Any], frame: pd.DataFrame) -> ExpectationResult:
    values = result["result"]
    success = bool(result["success"])
    examples: tuple[Mapping[str, Any], ...] = ()
    if result["exception_info"].get("raised_exception"):
        success, observed = False, f"not evaluated: {result['exception_info']}"
    elif "observed_value" in values:
        observed = values["observed_value"]
    else:
        observed = f"{values['unexpected_count']:,} of {values['element_count']:,}"
        rows = values.get("partial_unexpected_index_list") or []
        names = [str(n) for n in check.kwargs.values() if isinstance(n, str)]
        columns = [c for c in frame.columns if c in _IDENTITY or c in names]
        examples = tuple(plain(frame.loc[i, columns].to_dict()) for i in rows[:_EXAMPLES])
    return ExpectationResult(
        frame=check.frame,
        expectation=result["expectation_config"]["type"],
        what=check.what,
        expected=check.expected,
        detail=check.detail,
        severity=check.severity,
        observed=plain(observed),
        examples=examples,
        kwargs=plain(dict(check.kwargs)),
        success=success,
    )


def _seen(outcome: ExpectationResult) -> str:
    observed = outcome.observed
    if isinstance(observed, str):
        return f"{observed} fail" if " of " in observed else observed
    return f"observed {observed:,.6g}"


def _steady(result: dict[str, Any]) -> dict[str, Any]:
    """Remove ids and times from Great Expectations' result: a retry must leave the same file."""
    for item in result.get("results", []):
        item["expectation_config"].pop("id", None)
    result["meta"] = {"great_expectations_version": result["meta"]["great_expectations_version"]}
    result.pop("id", None)
    return result
