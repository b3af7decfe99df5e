"""Whom a plan needs to pass: the spec's limit, or a person; and what a person is told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from evenkeel.pipeline.steps import open_run, read_plan
from evenkeel.registry.run_folder import RunFolder
from evenkeel.registry.store import shaped
from partitioning.errors import FenceError

#: Airflow fails a task that is answered before its scheduler has taken in that it asks, a loop or
#: two later: nobody answers before the scheduler was seen to go on so long after it asked.
SETTLED = timedelta(seconds=5)
#: Which plan Airflow has asked about. Asked again in the same run, it goes on showing the first.
ASKED = "asked.json"


@dataclass(frozen=True)
class Request:
    """What a person is asked before state moves."""

    subject: str
    body: str


def request(spec_path: str, run_id: str) -> Request | None:
    """What a person must be asked about this run's plan; None where it passes by itself."""
    spec, _, run = open_run(spec_path, run_id)
    made = read_plan(run)
    if spec.approve_over is None or made.bytes <= spec.approve_over:
        return None
    share = made.bytes / made.state_bytes if made.state_bytes else 0.0
    hottest = max(range(len(made.loads_before)), key=made.loads_before.__getitem__)
    least = "the least possible" if spec.split else "the least possible without splitting keys"
    rows = [
        ("state to move", f"{made.bytes:,.0f} bytes, {share:.1%} of the state"),
        ("limit", f"{spec.approve_over:,} bytes move without asking"),
        ("imbalance", f"{made.imbalance_before:.3f} now, {made.imbalance_after:.3f} after"),
        ("floor", f"{made.floor:.3f}: {least}"),
        ("hottest channel now", str(hottest)),
        ("moves", f"{len(made.moves):,}"),
        ("strategy", made.function.strategy),
        ("window", " to ".join(made.window)),
        ("plan", made.digest),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return Request(
        subject=f"{spec.table}: move {made.bytes:,.0f} bytes for epoch {made.function.epoch}?",
        body=f"| | |\n|---|---|\n{table}\n\nReject: nothing moves and the run ends.",
    )


def ask(spec_path: str, run_id: str) -> None:
    """Keep which plan a person is about to be asked about; what was answered before counts no more.

    Raises
    ------
    FenceError : a person has been asked about another plan in this run
    """
    _, _, run = open_run(spec_path, run_id)
    digest = read_plan(run).digest
    _check_asked(run, digest)
    run.remove("approval.json")
    run.write_json(ASKED, {"digest": digest})


def record(
    spec_path: str, run_id: str, approved: bool, by: str, when: str, asked: bool = False
) -> None:
    """Leave who approved or rejected the plan, and when, in `approval.json`.

    Parameters
    ----------
    asked : a person was asked, and has answered

    Raises
    ------
    FenceError : that person was asked about another plan
    """
    _, _, run = open_run(spec_path, run_id)
    digest = read_plan(run).digest
    if asked:
        _check_asked(run, digest)
    run.write_json(
        "approval.json", {"approved": approved, "by": by, "when": when, "digest": digest}
    )


def _check_asked(run: RunFolder, digest: str) -> None:
    about = shaped(run.read_json(ASKED), run.url, digest=str) if run.exists(ASKED) else {}
    if about.get("digest", digest) != digest:
        raise FenceError(
            f"a person may have been asked about plan {about['digest'][:12]}, and Airflow shows it "
            f"still; the plan is {digest[:12]} by now",
            run.url,
            "Nothing has moved: start a new run",
        )
