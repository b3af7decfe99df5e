"""Expectations in plain words, run by Great Expectations on small frames, and what came of them.

The only module that runs Great Expectations. It takes seconds to import, so it is imported when
a gate runs; its context is in memory, draws no progress bars and calls nobody.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from partitioning.errors import GateError

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations.core import ExpectationSuiteValidationResult

#: Fails the gate.
CRITICAL = "critical"
#: Is reported, and does not fail the gate.
WARNING = "warning"
# Rows that fail are told by these columns and those that the check is about.
_EXAMPLES = 5
_IDENTITY = ("table", "kind", "item", "channel")


@dataclass(frozen=True)
class Check:
    """One expectation of a suite.

    frame names the frame it is about, expectation the class of Great Expectations and kwargs its
    arguments; `what` says it in plain words, `expected` the bound and `detail` why it is that.
    """

    frame: str
    expectation: str
    what: str
    expected: str
    kwargs: Mapping[str, Any]
    detail: str = ""
    severity: str = CRITICAL


def check(
    frame: str,
    expectation: str,
    what: str,
    expected: str,
    *,
    detail: str = "",
    severity: str = CRITICAL,
    **kwargs: Any,
) -> Check:
    """A `Check`, its expectation's own arguments given by name."""
    return Check(frame, expectation, what, expected, kwargs, detail, severity)


@dataclass(frozen=True)
class ExpectationResult:
    """What came of a check. observed is the aggregate's value or "n of m rows fail";
    examples are the first rows that do."""

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
    """What came of a suite: success unless a critical expectation fails.

    `docs` names its page in the registry's store (None: none was left); `raw` holds Great
    Expectations' own results by frame.
    """

    suite: str
    results: tuple[ExpectationResult, ...]
    docs: str | None = None
    raw: Mapping[str, ExpectationSuiteValidationResult] = field(default_factory=dict, repr=False)

    @property
    def success(self) -> bool:
        """Whether every critical expectation holds."""
        return all(r.success for r in self.results if r.severity == CRITICAL)

    def with_docs(self, name: str) -> GateResult:
        """The same, its page being at `name`."""
        return replace(self, docs=name)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, the same each time but for `docs`: verdict, every expectation, and
        Great Expectations' own results under `great_expectations`."""
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

    def check(self, where: str | None = None) -> None:
        """Raise GateError, naming every critical expectation that fails, if there is one."""
        failed = [r for r in self.results if not r.success and r.severity == CRITICAL]
        if failed:
            told = "; ".join(f"{r.what} (expected {r.expected}, {_seen(r)})" for r in failed)
            raise GateError(
                f"{len(failed)} of {len(self.results)} expectations fail: {told}",
                where or f"gate {self.suite!r}",
                "See docs/GATES.md",
            )


def validate(suite: str, frames: Mapping[str, pd.DataFrame], checks: Sequence[Check]) -> GateResult:
    """Run the checks, each on its frame, and tell what came of them in the order given.

    A check that cannot be evaluated counts as failed.
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
            # Its renderer trips over NumPy 2's numbers.
            result.result = plain(result.result)
            place = int(result.expectation_config.meta["evenkeel"])
            outcomes[place] = _outcome(mine[place], result.to_json_dict(), frame)
    return GateResult(suite, tuple(outcomes[i] for i in range(len(checks))), raw=raw)


def plain(value: Any) -> Any:
    """JSON values alone: NumPy's numbers become Python's, what is not finite becomes text."""
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
    """Great Expectations' result without ids and times, so that a retry leaves the same file."""
    for item in result.get("results", []):
        item["expectation_config"].pop("id", None)
    result["meta"] = {"great_expectations_version": result["meta"]["great_expectations_version"]}
    result.pop("id", None)
    return result
