"""The record of a run: what its steps have left so far, and its result in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.migration_records import MigrationRecord, Prediction, Progress
from evenkeel.registry.files.outcome_records import GateRecord
from evenkeel.registry.files.records import Approval, ParamsRecord
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.registry.files.stored_file import StoredFile
from evenkeel.registry.verdict import read_rolled_back
from evenkeel.render.formatting import bytes_text, fair_share_text, percent_text
from evenkeel.runs.figures import Figure, figures
from partitioning.errors import EvenkeelError
from partitioning.planning.decide import Decision
from partitioning.planning.plan import Plan

T = TypeVar("T")


@dataclass(frozen=True)
class RunParts:
    """Hold the files that a run has left; None or empty: not there, or not yet.

    Parameters
    ----------
    table, run : names of the table and the run
    epoch : number of the epoch that the run started from
    params, decision, plan, gate_plan, approval, migration, gate_tables : as in the run's files
    prediction : cost of the plan as predicted when it was made
    progress : of this plan
    rolled_back : a rollback began (False) or ended (True); None: neither
    published : number of the epoch that the run published
    timings : seconds of each step, in order
    """

    table: str
    run: str = ""
    epoch: int | None = None
    params: ParamsRecord = field(default_factory=ParamsRecord)
    decision: Decision | None = None
    plan: Plan | None = None
    prediction: Prediction | None = None
    gate_plan: GateRecord | None = None
    approval: Approval | None = None
    progress: Progress | None = None
    migration: MigrationRecord | None = None
    gate_tables: GateRecord | None = None
    rolled_back: bool | None = None
    published: int | None = None
    timings: Mapping[str, float] = field(default_factory=dict)

    @property
    def started(self) -> bool:
        """Whether the run has begun to move state by its plan."""
        moved = self.migration
        return moved is not None and self.plan is not None and moved.digest == self.plan.digest

    @property
    def figures(self) -> list[Figure]:
        """Predicted and measured cost of the migration; empty without a plan."""
        return [] if self.plan is None else figures(self.plan, self.prediction, self.migration)


def read_run(
    table: str, registry: Registry, run: RunFiles, problems: list[str] | None = None
) -> RunParts:
    """Read what the run has left.

    Parameters
    ----------
    table : name of the table
    registry : of the table
    run : its folder
    problems : one text for each damaged file is added here; None: raise the error instead

    Raises
    ------
    DamagedError : a file is torn, or holds something else, and `problems` is None
    """

    def read(file: StoredFile[T]) -> T | None:
        return attempt(file.find)

    def attempt(find: Callable[[], T | None]) -> T | None:
        try:
            return find()
        except EvenkeelError as error:
            if problems is None:
                raise
            problems.append(str(error))
            return None

    def is_published(plan: Plan) -> bool:
        number = plan.function.epoch
        told = attempt(partial(registry.published, number, plan.digest))
        if told is None:
            # The epoch's file is damaged. The plan beside it says which run led to it.
            kept = read(registry.archive(number).plan)
            told = kept is not None and kept.digest == plan.digest
        return told

    plan = read(run.plan)
    profile = read(run.learned)
    migration = read(run.migration)
    progress = read(run.progress)
    published = rolled_back = prediction = None
    if plan is not None:
        prediction = read(run.prediction(plan.digest))
        if is_published(plan):
            published = plan.function.epoch
        mark = attempt(partial(read_rolled_back, run, plan.digest))
        rolled_back = None if mark is None else mark.done
    timings = {"learn": profile.seconds} if profile and profile.seconds is not None else {}
    for name, moved in migration.tables.items() if migration else ():
        timings[f"migrate {name}"] = moved.seconds
    return RunParts(
        table=table,
        run=run.name,
        epoch=plan.parent_epoch if plan else profile.epoch if profile else None,
        params=read(run.params) or ParamsRecord(),
        decision=read(run.decision),
        plan=plan,
        prediction=prediction,
        gate_plan=read(run.gate_plan),
        approval=read(run.approval),
        progress=progress if plan and progress and progress.digest == plan.digest else None,
        migration=migration,
        gate_tables=read(run.gate_tables),
        rolled_back=rolled_back,
        published=published,
        timings=timings,
    )


def headline(parts: RunParts, ended: bool = False) -> tuple[str, str, str]:
    """Return the result of a run: a title, a sentence, and its tone (good, bad or plain).

    Parameters
    ----------
    ended : the run does not go on: what it has not finished stays as it is
    """
    table, plan = parts.table, parts.plan
    if plan is None:
        return _without_plan(parts)
    way = f"epoch {plan.parent_epoch} to epoch {plan.function.epoch}"
    share = plan.bytes / plan.state_bytes if plan.state_bytes else 0.0
    price = f"{bytes_text(plan.bytes)} of state ({percent_text(share)})"
    change = (
        f"The fullest channel {{}} {fair_share_text(plan.imbalance_before)} "
        f"and {{}} {fair_share_text(plan.imbalance_after)}"
    )
    would = change.format("carries", "would carry") + f", for moving {price}."
    did = change.format("carried", "now carries") + f".{_cost(parts)}"
    # A task of Airflow can be marked as a success by hand, and a job be started without it.
    moved = parts.started or parts.published is not None
    if parts.gate_plan and not parts.gate_plan.success and not moved:
        return f"{table}: the plan from {way} did not pass", f"Nothing moved. {would}", "bad"
    if parts.approval and parts.approval.refuses(plan.digest) and not parts.started:
        by = f"Refused by {parts.approval.by}: nothing moved. "
        return f"{table}: the plan from {way} was refused", by + would, "bad"
    if parts.rolled_back and parts.published is None and not parts.started:
        done = f"Nothing moved: the job that moves rows was refused, or the plan withdrawn. {would}"
        return f"{table}: the plan from {way} was not carried out", done, "bad"
    if parts.rolled_back is not None and parts.published is None:
        not_done = "was not rolled back to the end" if ended else "is being rolled back"
        done = "was rolled back" if parts.rolled_back else not_done
        stays = f"Epoch {plan.parent_epoch} stays the current one. "
        return (
            f"{table}: the move from {way} {done}",
            f"{_why(parts)} {stays}{would}",
            "bad",
        )
    if ended and parts.started and parts.published is None:
        left = "The run ended, and neither published the epoch nor moved the rows back."
        title = f"{table} was left half moved on the way from {way}"
        return title, f"{left} {_why(parts)} {would}", "bad"
    if parts.gate_tables and not parts.gate_tables.success:
        return (
            f"{table}: the move from {way} did not pass",
            f"Epoch {plan.parent_epoch} stays the current one. {would}",
            "bad",
        )
    if parts.published is not None:
        return f"{table} went from {way}", did, "good"
    if parts.params.dry_run:
        return f"{table}: a dry run from {way}", f"Nothing has moved. {would}", ""
    if parts.started:
        return f"{table} is moving from {way}", f"Not published yet. {would}", ""
    return f"{table}: a plan from {way}", f"Nothing has moved. {would}", ""


def _without_plan(parts: RunParts) -> tuple[str, str, str]:
    table, decision = parts.table, parts.decision
    if decision is None:
        return f"{table}: nothing decided yet", "The run has not come to a decision.", ""
    if decision.rebalance:
        return f"{table}: nothing planned yet", f"To rebalance: {decision.reason}.", ""
    stays = f"{table} stays at epoch {parts.epoch}" if parts.epoch is not None else table
    return stays, f"Nothing moves: {decision.reason}.", ""


def _why(parts: RunParts) -> str:
    """Say why a run did not publish, as far as its files show."""
    gate = parts.gate_tables
    if gate is None:
        return "The tables were not checked: the job that moves them did not succeed."
    failed = [r.what for r in gate.results if r.fails_gate]
    if gate.success:
        return "The tables passed their checks, but a later step failed."
    return f"The tables did not pass: {'; '.join(failed) or 'see below'}."


def _cost(parts: RunParts) -> str:
    """Say how much state the migration moved, and in which time; empty if nothing tells."""
    found = {f.name: f for f in parts.figures}
    moved, seconds = found["bytes_moved"], found["seconds"]
    if moved.measured is None:
        return ""
    took = f" in {seconds.texts[1]}" if seconds.measured is not None else ""
    return f" It moved {moved.texts[1]} of state{took}; {moved.texts[0]} were predicted."
