"""Approval of plans: by the spec's limit, or by a person; and what that person is shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from evenkeel.inspect.half_moved import check_rests
from evenkeel.pipeline.steps import open_run, read_plan
from evenkeel.registry.files.records import Approval, Question
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.render.formatting import fair_share_text
from evenkeel.runs.figures import figures
from evenkeel.runs.report import channel_names, floor_note
from partitioning.errors import FenceError
from partitioning.workload.metrics import fair_shares

#: Time after the question for which the scheduler must be seen running before an answer is allowed.
#: Airflow fails a task that is answered before its scheduler has noticed the question.
SETTLED = timedelta(seconds=5)


@dataclass(frozen=True)
class ApprovalRequest:
    """Hold the question to a person before state moves."""

    subject: str
    body: str


def request(spec_path: str, run_id: str) -> ApprovalRequest | None:
    """Return what a person must be asked about this run's plan; None: it passes without."""
    spec, _, run = open_run(spec_path, run_id)
    made = read_plan(run)
    if spec.approve_over is None or made.bytes <= spec.approve_over:
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
    )


def passed_by(spec_path: str, run_id: str) -> str:
    """Return whose answer it is that a plan passes, if no person is asked."""
    spec, _, _ = open_run(spec_path, run_id)
    return "the spec, which sets no limit" if spec.approve_over is None else "the spec's limit"


def ask(spec_path: str, run_id: str) -> None:
    """Record which plan a person is about to be asked about. Earlier answers no longer count.

    Raises
    ------
    FenceError : a person has been asked about another plan in this run, or its rows are half moved
    """
    _, registry, run = open_run(spec_path, run_id)
    check_rests(registry, run)
    digest = read_plan(run).digest
    _check_question(run, digest)
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
    FenceError : that person was asked about another plan
    """
    _, _, run = open_run(spec_path, run_id)
    digest = read_plan(run).digest
    if asked:
        _check_question(run, digest)
    run.approval.write(Approval(approved=approved, by=by, when=when, digest=digest))


def _check_question(run: RunFiles, digest: str) -> None:
    asked = run.question.find()
    if asked is not None and asked.digest != digest:
        raise FenceError(
            f"Airflow still asks a person about plan {asked.digest[:12]}, but the plan is now "
            f"{digest[:12]}",
            run.url,
            "Nothing has moved: start a new run",
        )
