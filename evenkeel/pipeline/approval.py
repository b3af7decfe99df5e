"""Approval of plans: by the spec's limit, or by a person; and what that person is shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from evenkeel.inspect.half_moved import check_rests, find_half_moved
from evenkeel.pipeline.steps import open_run, read_plan
from evenkeel.registry.files.records import Approval, Question
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.render.formatting import fair_share_text
from evenkeel.runs.figures import figures
from evenkeel.runs.report import channel_names, floor_note
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import FenceError
from partitioning.planning.plan import Plan
from partitioning.workload.metrics import fair_shares

#: Time after the question for which the scheduler must be seen running before an answer is allowed.
#: Airflow fails a task that is answered before its scheduler has noticed the question.
SETTLED = timedelta(seconds=5)


@dataclass(frozen=True)
class ApprovalRequest:
    """Hold the question to a person before state moves, and the digest of its plan."""

    subject: str
    body: str
    digest: str


def request(spec_path: str, run_id: str) -> ApprovalRequest | None:
    """Return what a person must be asked about this run's plan; None: it passes without."""
    spec, _, run = open_run(spec_path, run_id)
    made = read_plan(run)
    if _passes(spec, made):
        return None
    share = made.bytes / made.state_bytes if made.state_bytes else 0.0
    names, weights = channel_names(made)
    shares = fair_shares(np.array(made.loads_before), np.array(weights))
    fullest = max(range(len(shares)), key=shares.__getitem__)
    price = {f.title: f.texts[0] for f in figures(made, run.prediction(made.digest).find(), None)}
    rows = [
        ("state to move", f"{made.bytes:,.0f} bytes, {share:.1%} of the state"),
        *((name, f"{price[name]} predicted") for name in ("bytes of files", "commits", "time")),
        ("limit", f"{spec.approve_over:,} bytes move without asking"),
        ("imbalance", f"{made.imbalance_before:.3f} now, {made.imbalance_after:.3f} after"),
        ("floor", f"{made.floor:.3f}: {floor_note(made.floor, spec.split is not None)}"),
        ("fullest channel now", f"{names[fullest]}, {fair_share_text(shares[fullest])}"),
        ("moves", f"{len(made.moves):,}"),
        ("strategy", made.function.strategy),
        ("window", " to ".join(made.window)),
        ("plan", made.digest),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return ApprovalRequest(
        subject=f"{spec.table}: move {made.bytes:,.0f} bytes for epoch {made.function.epoch}?",
        body=f"| | |\n|---|---|\n{table}\n\nReject: nothing moves and the run ends.",
        digest=made.digest,
    )


def _passes(spec: TableSpec, plan: Plan) -> bool:
    """Tell whether a plan needs no person's answer."""
    return spec.approve_over is None or plan.bytes <= spec.approve_over


def passed_by(spec_path: str, run_id: str) -> str:
    """Return whose answer it is that a plan passes, if no person is asked."""
    spec, _, _ = open_run(spec_path, run_id)
    return "the spec, which sets no limit" if spec.approve_over is None else "the spec's limit"


def ask(spec_path: str, run_id: str, digest: str) -> None:
    """Record which plan a person is about to be asked about. Earlier answers no longer count.

    Parameters
    ----------
    digest : of the plan that the question shows

    Raises
    ------
    FenceError : a person has been asked about another plan in this run, its rows are half moved, or
        its plan is another one by now
    """
    _, registry, run = open_run(spec_path, run_id)
    check_rests(registry, run)
    _check_question(run, digest)
    if read_plan(run).digest != digest:
        raise _changed_since(run)
    run.approval.remove()
    run.question.write(Question(digest=digest))


def record(
    spec_path: str, run_id: str, approved: bool, by: str, when: str, asked: bool = False
) -> None:
    """Write who approved or rejected the plan, and when, to `approval.json`.

    Parameters
    ----------
    spec_path, run_id : of the run
    approved : the answer
    by : who answered
    when : ISO 8601
    asked : a person was asked, and has answered

    Raises
    ------
    FenceError : that person was asked about another plan, or a person must be asked about this one
    """
    spec, _, run = open_run(spec_path, run_id)
    plan = read_plan(run)
    if asked:
        _check_question(run, plan.digest)
    elif approved and not _passes(spec, plan):
        raise _changed_since(run)
    _answer(run, plan, approved, by, when)


def refuse(run: RunFiles, by: str) -> None:
    """Note that a run was stopped by somebody before its plan began: as a refusal of that plan."""
    plan = run.plan.find()
    if plan is not None and not run.migration.exists():
        _answer(run, plan, False, by, datetime.now(UTC).isoformat(timespec="seconds"))


def check_let_pass(spec_path: str, run_id: str) -> None:
    """Raise FenceError unless the gate and an answer let the run's plan pass, or rows have moved.

    `evenkeel_spark.plans.approved_plan` holds the answer against the plan.
    """
    _, registry, run = open_run(spec_path, run_id)
    if find_half_moved(registry, run) is not None:
        return
    gate = run.gate_plan.find()
    if gate is None or not gate.success:
        found = "that it has not looked" if gate is None else "that it did not"
        raise FenceError(
            f"expected that the gate has passed the plan, found {found}",
            run.url,
            "Clear the task validate_plan with all tasks after it",
        )
    if not run.approval.exists() and not run.question.exists():
        raise FenceError(
            "expected an answer to the plan, found that nobody was asked",
            run.url,
            "Clear the task approve with all tasks after it",
        )


def _answer(run: RunFiles, plan: Plan, approved: bool, by: str, when: str) -> None:
    run.approval.write(Approval(approved=approved, by=by, when=when, digest=plan.digest))


def _changed_since(run: RunFiles) -> FenceError:
    return FenceError(
        "its plan, or the limit of the spec, is another one since the plan was weighed",
        run.url,
        "Nothing is decided: clear approve. If it says the same, start a new run",
    )


def _check_question(run: RunFiles, digest: str) -> None:
    asked = run.question.find()
    if asked is not None and asked.digest != digest:
        raise FenceError(
            f"Airflow still asks a person about plan {asked.digest[:12]}, but the plan is now "
            f"{digest[:12]}",
            run.url,
            "Nothing has moved: start a new run",
        )
