"""What a run has left so far, and what that amounts to in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from evenkeel.quality.history import checked
from evenkeel.registry.epochs import Registry
from evenkeel.registry.profiles import learned_from
from evenkeel.registry.run_folder import RunFolder
from evenkeel.registry.store import shaped
from evenkeel.registry.verdict import read_rolled_back
from evenkeel.render.formatting import bytes_text, imbalance_text, percent_text, seconds_text
from evenkeel.runs.timings import migrated
from partitioning.errors import EvenkeelError
from partitioning.planning.plan import Plan

T = TypeVar("T")
#: What people are told of a decision, and the `worth` that `plan` goes by; null or missing: the
#: spec's.
DECISION = {"rebalance": bool, "reason": str, "worth": int | float | None} | dict.fromkeys(
    ("imbalance", "reachable", "floor", "bytes"), int | float
)
#: How far the commits of a throttled migration have come, of which plan; `left` is in seconds. Of
#: the way `back` earlier versions said nothing.
PROGRESS = {"digest": str, "back": bool | None} | dict.fromkeys(
    ("rows", "planned", "bytes", "left"), int | float
)


@dataclass(frozen=True)
class RunParts:
    """What a run has left; None or empty: not (yet) there.

    Parameters
    ----------
    table, run : names of the table and the run
    epoch : number of the epoch that the run started from
    params, decision, plan, gate_plan, approval, migration, gate_tables : as in the run's files
    progress : `PROGRESS` of this plan, `back` False where the file does not say
    rolled_back : whether roll_back began (False) or ended (True); None: neither
    published : number of the epoch that the run published
    timings : seconds of each step, in order
    """

    table: str
    run: str = ""
    epoch: int | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    decision: Mapping[str, Any] | None = None
    plan: Plan | None = None
    gate_plan: Mapping[str, Any] | None = None
    approval: Mapping[str, Any] | None = None
    progress: Mapping[str, Any] | None = None
    migration: Mapping[str, Any] | None = None
    gate_tables: Mapping[str, Any] | None = None
    rolled_back: bool | None = None
    published: int | None = None
    timings: Mapping[str, float] = field(default_factory=dict)


def read_run(
    table: str, registry: Registry, run: RunFolder, problems: list[str] | None = None
) -> RunParts:
    """Gather what the run has left; what is wrong goes to `problems`, if there are any to fill.

    Raises
    ------
    DamagedError : a file that is torn, or holds something else; nobody asked for `problems`
    """

    def left(name: str, read: Callable[[Any, str], T]) -> T | None:
        file = f"{name}.json"
        try:
            return read(run.read_json(file), f"{run.url}/{file}") if run.exists(file) else None
        except EvenkeelError as error:
            if problems is None:
                raise
            problems.append(str(error))
            return None

    plan = left("plan", Plan.from_dict)
    profile = left("profile", learned_from)
    migration = left("migration", migrated)
    progress = left("progress", lambda *file: {"back": False} | shaped(*file, **PROGRESS))
    published = rolled_back = None
    if plan is not None:
        if registry.published(plan.function.epoch, plan.digest):
            published = plan.function.epoch
        # The mark may be of an attempt before the newest.
        if left("rolled_back", partial(shaped, digest=str, done=bool)) is not None:
            mark = read_rolled_back(run, plan.digest)
            rolled_back = None if mark is None else mark["done"]
    timings = {"learn": profile["seconds"]} if profile and "seconds" in profile else {}
    for name, moved in (migration or {}).get("tables", {}).items():
        timings[f"migrate {name}"] = moved["seconds"]
    return RunParts(
        table=table,
        run=run.name,
        epoch=plan.parent_epoch if plan else profile["epoch"] if profile else None,
        params=left("params", shaped) or {},
        decision=left("decision", partial(shaped, **DECISION)),
        plan=plan,
        gate_plan=left("gate_plan", checked),
        approval=left("approval", partial(shaped, approved=bool, by=str, when=str)),
        progress=progress if plan and progress and progress["digest"] == plan.digest else None,
        migration=migration,
        gate_tables=left("gate_tables", checked),
        rolled_back=rolled_back,
        published=published,
        timings=timings,
    )


def headline(parts: RunParts) -> tuple[str, str, str]:
    """What happened: a title, a sentence, and its tone (good, bad or plain)."""
    table, plan, decision = parts.table, parts.plan, parts.decision
    if plan is None:
        stays = f"{table} stays at epoch {parts.epoch}" if parts.epoch is not None else table
        if decision is None:
            return f"{table}: nothing decided yet", "The run has not come to a decision.", ""
        if decision["rebalance"]:
            return f"{table}: nothing planned yet", f"To rebalance: {decision['reason']}.", ""
        return stays, f"Nothing moves: {decision['reason']}.", ""
    way = f"epoch {plan.parent_epoch} to epoch {plan.function.epoch}"
    share = plan.bytes / plan.state_bytes if plan.state_bytes else 0.0
    price = f"{bytes_text(plan.bytes)} of state ({percent_text(share)})"
    change = (
        f"The fullest channel {{}} {imbalance_text(plan.imbalance_before)} times its fair share "
        f"and {{}} {imbalance_text(plan.imbalance_after)}"
    )
    would = change.format("carries", "would carry") + f", for moving {price}."
    did = change.format("carried", "now carries") + f", for moving {price}{_took(parts)}."
    if parts.gate_plan and not parts.gate_plan["success"]:
        return f"{table}: the plan from {way} did not pass", f"Nothing moved. {would}", "bad"
    if parts.approval and not parts.approval["approved"]:
        by = f"{parts.approval['by']} rejected it: nothing moved. "
        return f"{table}: the plan from {way} was rejected", by + would, "bad"
    if parts.rolled_back is not None and parts.published is None:
        done = "was" if parts.rolled_back else "is being"
        stays = f"Epoch {plan.parent_epoch} stays the current one. "
        return (
            f"{table}: the move from {way} {done} rolled back",
            f"{_why(parts)} {stays}{would}",
            "bad",
        )
    if parts.gate_tables and not parts.gate_tables["success"]:
        return (
            f"{table}: the move from {way} did not pass",
            f"Epoch {plan.parent_epoch} stays the current one. {would}",
            "bad",
        )
    if parts.published is not None:
        return f"{table} went from {way}", did, "good"
    if parts.params.get("dry_run"):
        return f"{table}: a dry run from {way}", f"Nothing has moved. {would}", ""
    if parts.migration:
        return f"{table} is moving from {way}", f"Not published yet. {would}", ""
    return f"{table}: a plan from {way}", f"Nothing has moved. {would}", ""


def _why(parts: RunParts) -> str:
    """Why a run was rolled back, as far as its files tell."""
    gate = parts.gate_tables
    if gate is None:
        return "The tables were not checked: the job that moves them did not succeed."
    failed = [
        r["what"] for r in gate["results"] if not r["success"] and r["severity"] == "critical"
    ]
    if gate["success"]:
        return "The tables passed their checks, but a later step failed."
    return f"The tables did not pass: {'; '.join(failed) or 'see below'}."


def _took(parts: RunParts) -> str:
    seconds = [t.get("seconds") for t in (parts.migration or {}).get("tables", {}).values()]
    known = [s for s in seconds if s is not None]
    return f" in {seconds_text(sum(known))}" if known else ""
