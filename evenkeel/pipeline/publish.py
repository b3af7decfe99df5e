"""Publishing an epoch: the only place where a plan becomes the current function of its table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from evenkeel.registry import verdict
from evenkeel.registry.epochs import Epoch, Registry, TableVersion
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.runs.params import spec_channels
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import DamagedError, FenceError, GateError
from partitioning.planning.plan import Plan


def publish_checked(
    spec: TableSpec,
    registry: Registry,
    run: RunFiles,
    made: Plan,
    number: int,
    look: Callable[[], dict[str, int]],
    land: Callable[[], dict[str, int]] | None = None,
) -> Epoch:
    """Make the plan's function the current epoch. Doing it again changes nothing.

    Parameters
    ----------
    spec, registry, run : of the plan
    made : plan of the run
    number : of the attempt
    look : checks that the new epoch's constraint is the only one on every state table. Returns the
        version at which each was checked, or raises FenceError
    land : brings the rows to readers, once nobody can roll back, and returns the versions; None:
        `look` again, as readers have them already

    Raises
    ------
    FenceError : what `look` or `land` raises, the run was rolled back, or another epoch was
        published since the plan was made
    GateError : the tables did not pass
    """
    if registry.published(made.function.epoch, made.digest):
        return registry.epoch(made.function.epoch)
    check_passed(run, made)
    look()
    # The plan has it, but for one of an early version, or one that has waited for very long.
    if not (listed := registry.files.spec_channels(made.digest)).exists():
        # Write this before the epoch, which would lack it after a crash otherwise.
        listed.write(spec_channels(spec))
    if verdict.settle(run, made.digest, number, verdict.PUBLISH) != verdict.PUBLISH:
        raise FenceError("this run was rolled back", run.url, "Start a new run")
    # Look again: from here on nobody can roll back, and this sees a rollback that began before.
    tables = {n: TableVersion(spec.state[n].path, v) for n, v in (land or look)().items()}
    return registry.publish(made.function, tables, made.digest)


def check_passed(run: RunFiles, made: Plan) -> None:
    """Refuse a run whose tables were not verified in its newest attempt, or that was rolled back.

    Who decided to publish has seen that they passed. From then on nothing is asked here, so no
    later result stops what is decided.

    Raises
    ------
    GateError : the tables did not pass
    FenceError : another plan or attempt was verified, or the run was rolled back
    """
    newest = verdict.newest_attempt(run, made.digest)
    if newest.verdict == verdict.PUBLISH:
        return
    if not run.gate_tables.read().success:
        raise GateError(
            "the tables did not pass; no epoch is published",
            run.url,
            f"{run.gate_tables.name} has what failed; roll the run back",
        )
    verified = run.verify.read()
    if verified.digest != made.digest:
        raise FenceError(
            f"{run.verify.name} is of another plan than this run's", run.url, "Start a new run"
        )
    if newest.verdict == verdict.ROLL_BACK:
        raise FenceError("this run was rolled back", run.url, "Start a new run")
    if verified.attempt != newest.number:
        raise FenceError(
            f"{run.verify.name} is of attempt {verified.attempt}, expected {newest.number}",
            run.url,
            "Run the job verify again",
        )


def keep_files(registry: Registry, run: RunFiles, made: Plan) -> str | None:
    """Copy the run's files beside the epoch that its plan has published.

    A published run that is cleared learns again, at its own epoch. Its files are of no plan then,
    and those that are kept stay.

    Returns
    -------
    The path of the kept page; None: the run has learned again.
    """
    # A torn profile is kept like any other file: the epoch is in force.
    with suppress(DamagedError):
        learned = run.learned.find()
        if learned is None or learned.epoch != made.parent_epoch:
            return None
    kept = registry.archive(made.function.epoch)
    kept.keep(run, made.digest)
    return kept.report.path
