"""The steps between the Spark jobs: decide, plan, gate, publish, report.

Each step reads the files that earlier steps left in the run's folder, and leaves its own. So a
retry gives the same files, and only the run's name travels through Airflow. No step touches rows.
An epoch is published by the job that has just checked the tables.
"""

from __future__ import annotations

from evenkeel.inspect.half_moved import check_rests
from evenkeel.pipeline.plan_file import write_plan
from evenkeel.pipeline.publish import check_passed, keep_files
from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.registry.files.html import Html
from evenkeel.registry.files.records import ParamsRecord
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.runs.params import (
    channels_listed,
    check_params,
    goes_back,
    spec_channels,
)
from evenkeel.runs.planning import decision_for, plan_back, plan_next
from evenkeel.spec.loading import load_spec
from evenkeel.spec.run_params import Params
from evenkeel.spec.table_spec import TableSpec
from evenkeel.watch.mitigation import plan_mitigation
from evenkeel.watch.state_file import read as read_watch
from partitioning.errors import FenceError, InputError
from partitioning.function.hashing import KeyColumn
from partitioning.planning.decide import Decision
from partitioning.planning.plan import Plan
from partitioning.workload.profile import Profile


def decide(spec_path: str, run_id: str, params: Params) -> Decision:
    """Decide whether this run rebalances. Write `decision.json` and `params.json`.

    Raises
    ------
    InputError : a wrong parameter, or no profile
    FenceError : an epoch was published since the profile was learned; or there is nothing to do,
        and rows of the run are half moved
    """
    spec, registry, run = open_run(spec_path, run_id)
    check_params(spec, params)
    epoch, profile, *_ = _read_profile(registry, run)
    decision = decision_for(spec, registry, epoch, profile, params)
    if not decision.rebalance:
        check_rests(registry, run)
    run.params.write(ParamsRecord(**params.model_dump(mode="json")))
    run.decision.write(decision)
    return decision


def plan(spec_path: str, run_id: str, params: Params) -> str:
    """Plan the next epoch, write `plan.json` and its prediction, and return the plan's digest.

    Raises
    ------
    InputError : an unknown strategy or option, or impossible channels
    FenceError : an epoch was published since the profile was learned, or the run has begun to
        carry out another plan
    DamagedError : the decision's file is torn
    """
    spec, registry, run = open_run(spec_path, run_id)
    epoch, profile, tables, row = _read_profile(registry, run)
    decision = run.decision.find()
    worth = None if decision is None else decision.worth
    made = plan_next(spec, registry, epoch, profile, params, tables, row, worth)
    return write_plan(spec, registry, run, made, profile, spec_channels(spec), params)


def plan_rollback(spec_path: str, run_id: str, to_epoch: int, *, dry_run: bool = False) -> str:
    """Plan the way back to the placement of an earlier epoch, and return the plan's digest.

    The result is a new epoch. Rows written since then stay.

    Raises
    ------
    InputError : there is no such epoch, or it is the current one
    FenceError : as for `plan`
    """
    spec, registry, run = open_run(spec_path, run_id)
    epoch, profile, tables, row = _read_profile(registry, run)
    if to_epoch == epoch.number:
        raise InputError(
            f"epoch {to_epoch} is the current one", spec.registry, "Name an earlier one"
        )
    target = registry.epoch(to_epoch)
    made = plan_back(spec, epoch, profile, target, tables, row)
    digest = write_plan(spec, registry, run, made, profile, channels_listed(registry, epoch))
    run.params.write(ParamsRecord(to_epoch=to_epoch, dry_run=dry_run))
    return digest


def plan_watch(spec_path: str, run_id: str) -> str | None:
    """Plan what the watch has decided in this run, and return the plan's digest; None: nothing.

    Raises
    ------
    FenceError : as for `plan`
    """
    spec, registry, run = open_run(spec_path, run_id)
    if not run.watch_decision.exists():
        check_rests(registry, run)
        return None
    epoch, profile, tables, row = _read_profile(registry, run)
    made = plan_mitigation(spec, epoch, profile, run, tables, row)
    return write_plan(spec, registry, run, made, profile, channels_listed(registry, epoch))


def watch_message(spec_path: str) -> str:
    """Say in words what the watch made of the newest micro-batch."""
    known = read_watch(Registry(load_spec(spec_path).registry))
    return known.outcome if known is not None else "the watch has not looked yet"


def validate_plan(spec_path: str, run_id: str) -> None:
    """Run the expectation suite on the plan, and write `gate_plan.json`.

    Raises
    ------
    GateError : names every expectation that does not hold
    FenceError : an epoch was published since the plan was made
    """
    from evenkeel.quality.gates import plan_gate

    _, registry, run = open_run(spec_path, run_id)
    made = read_plan(run)
    epoch, profile, *_ = _read_profile(registry, run)
    gate = plan_gate(
        made,
        epoch.function,
        registry.store,
        run.name,
        profile=profile,
        # Plans of a rollback or of the watch are not made for the balance of a whole day.
        going_back=goes_back(run) or run.watch_decision.exists(),
    )
    run.gate_plan.write(gate.record())
    gate.check(run.url)


def publish(spec_path: str, run_id: str) -> int:
    """Copy the run's files beside the epoch that the job `verify` has published.

    Doing it again changes nothing. This never creates an epoch: only a job that has just checked
    the tables may (`publish_checked`). Return the epoch's number.

    Raises
    ------
    FenceError : another epoch was published since the plan was made, or the run was rolled back,
        or its tables were not verified to the end
    GateError : the tables did not pass
    """
    _, registry, run = open_run(spec_path, run_id)
    made = read_plan(run)
    number = made.function.epoch
    if not registry.published(number, made.digest):
        check_passed(run, made)
        if registry.current().number >= number:
            raise FenceError(
                f"epoch {number} is already published by another run", run.url, "Start a new run"
            )
        raise FenceError(
            f"epoch {number} is not published: the job verify publishes it, after a last look at "
            "the tables, and was broken off before",
            run.url,
            "Clear the task verify of this run",
        )
    keep_files(registry, run, made)
    return number


def report(spec_path: str, run_id: str) -> str | None:
    """Render the run's page as `report.html`, and return its path; None: there is nothing to show.

    The page is also kept beside the epoch that the run published.
    """
    from evenkeel.runs.report import render

    spec, registry, run = open_run(spec_path, run_id)
    if not run.learned.exists():
        return None
    where = run.report.write(Html(render(spec, registry, run)))
    made = run.plan.find()
    if made is not None and registry.published(made.function.epoch, made.digest):
        where = keep_files(registry, run, made) or where
    return where


def read_plan(run: RunFiles) -> Plan:
    """Read the run's plan. Raise InputError if there is none, DamagedError if it is torn."""
    return run.plan.read()


def open_run(spec_path: str, run_id: str) -> tuple[TableSpec, Registry, RunFiles]:
    """Open the spec, the registry and the run's folder."""
    spec = load_spec(spec_path)
    registry = Registry(spec.registry)
    return spec, registry, registry.run(run_id)


def _read_profile(
    registry: Registry, run: RunFiles
) -> tuple[Epoch, Profile, dict[str, int], KeyColumn | None]:
    """Read the current epoch, and the run's profile, tables' versions and split column."""
    learned = run.learned.read()
    epoch = registry.current()
    if learned.epoch != epoch.number:
        raise FenceError(
            f"epoch {epoch.number} was published since this profile was learned at "
            f"epoch {learned.epoch}",
            run.url,
            "Start a new run",
        )
    return epoch, run.profile.read(), learned.tables, learned.column
