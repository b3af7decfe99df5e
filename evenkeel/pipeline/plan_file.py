"""Writing the plan of a run, and what it was made from, unless rows move by another one."""

from __future__ import annotations

from dataclasses import replace

from evenkeel.inspect.half_moved import find_half_moved
from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.records import ChannelRecord
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.registry.pruning import readable_plan
from evenkeel.registry.verdict import has_started, withdraw
from evenkeel.runs.params import requested_throttling
from evenkeel.runs.prediction import keep_prediction
from evenkeel.spec.run_params import Params
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import FenceError, UnderWayError
from partitioning.planning.plan import Plan
from partitioning.workload.profile import Profile


def write_plan(
    spec: TableSpec,
    registry: Registry,
    run: RunFiles,
    made: Plan,
    profile: Profile,
    listed: list[ChannelRecord],
    params: Params | None = None,
) -> str:
    """Write the plan and its prediction, and return the plan's digest.

    If rows already move by a plan, that plan stays: only it can finish or undo the move. The plan
    names its run, so two runs never share a digest.

    Parameters
    ----------
    made : plan that names no run yet
    profile : that it was made from
    listed : the spec's channels that it goes by, as the spec may be edited before it is published
    params : of the run; None: it has none

    Raises
    ------
    FenceError : rows move by another plan of the run
    UnderWayError : another attempt has written a plan meanwhile
    """
    made = replace(made, run=run.name)
    # The same plan made again goes by the list of the first time.
    if not (file := registry.files.spec_channels(made.digest)).exists():
        file.write(listed)
    # Write the prediction first: a person who sees a plan must see its cost.
    keep_prediction(registry, run, made, profile, requested_throttling(spec, params or Params()))
    # Another attempt may have planned meanwhile, and begun to move rows.
    there = run.plan.find()
    _check_nothing_moves(registry, run, made)
    if there is None:
        _create_plan(run, made)
    else:
        if there.digest != made.digest:
            # The gate has passed another plan.
            run.gate_plan.remove()
        run.plan.write(made)
    try:
        # Write, then look, as migrate does: one of the two sees the other.
        _check_nothing_moves(registry, run, made)
    except FenceError:
        if there is not None:
            run.plan.write(there)
        raise
    begun = run.migration.find()
    if begun is not None and begun.digest != made.digest:
        # It was rolled back. The run's one mark of that may become the new plan's.
        withdraw(run, begun.digest)
    return made.digest


def remove_plan(run: RunFiles) -> None:
    """Remove a run's plan; one that has begun to move rows stays, and so does a torn one."""
    there = readable_plan(run)
    if there is None or has_started(run, there.digest):
        return
    run.plan.remove()
    # Remove, then look. migrate leaves its file, then looks for the plan: one sees the other.
    if has_started(run, there.digest):
        run.plan.write(there)


def _create_plan(run: RunFiles, made: Plan) -> None:
    """Write the first plan of a run.

    Raises
    ------
    UnderWayError : another attempt has written one meanwhile
    """
    if not run.plan.create(made):
        raise UnderWayError(
            "another attempt of this task has written a plan meanwhile", run.url, "Run it again"
        )


def _check_nothing_moves(registry: Registry, run: RunFiles, made: Plan) -> None:
    """Raise FenceError if rows move, in this run, by another plan than the one that was made."""
    half = find_half_moved(registry, run)
    if half is not None and half.digest != made.digest:
        raise FenceError(
            f"this run has begun to move rows by plan {half.digest[:12]}, another one",
            run.url,
            f"Run roll_back of run {run.name} with digest {half.digest} first, or start a new run "
            "after it",
        )
