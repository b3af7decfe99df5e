"""Publish an epoch: the one place where a plan becomes the current function of its table."""

from __future__ import annotations

from collections.abc import Callable

from evenkeel.registry import verdict
from evenkeel.registry.epochs import Epoch, Registry, TableVersion
from evenkeel.registry.run_folder import RunFolder
from evenkeel.runs.params import spec_channels, spec_channels_file
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import FenceError, GateError
from partitioning.planning.plan import Plan


def publish_checked(
    spec: TableSpec,
    registry: Registry,
    run: RunFolder,
    made: Plan,
    number: int,
    look: Callable[[], dict[str, int]],
) -> Epoch:
    """Make the plan's function the current epoch. Doing it again changes nothing.

    Parameters
    ----------
    made : plan of the run
    number : of the attempt
    look : checks that every state table stands under the new epoch's constraint alone, and returns
        the version of each that it was checked at; raises FenceError

    Raises
    ------
    FenceError : what `look` raises, the run was rolled back, or another epoch was published since
        the plan was made
    GateError : the tables did not pass
    """
    if registry.published(made.function.epoch, made.digest):
        return registry.epoch(made.function.epoch)
    check_passed(run, made)
    look()
    # Before the epoch, which would otherwise lack it after a crash.
    registry.store.write_json(spec_channels_file(made.digest), spec_channels(spec))
    if verdict.settle(run, made.digest, number, verdict.PUBLISH) != verdict.PUBLISH:
        raise FenceError("this run was rolled back", run.url, "Start a new run")
    # Again, now that nobody goes back any more: who began to before is seen here.
    tables = {name: TableVersion(spec.state[name].path, v) for name, v in look().items()}
    return registry.publish(made.function, tables, made.digest)


def check_passed(run: RunFolder, made: Plan) -> None:
    """Refuse a run whose tables were not verified for this plan, or that was rolled back.

    Raises
    ------
    GateError : the tables did not pass
    FenceError : another plan was verified, or the run was rolled back
    """
    if not run.read_json("gate_tables.json")["success"]:
        raise GateError(
            "the tables did not pass; no epoch is published",
            run.url,
            "gate_tables.json has what failed; roll the run back",
        )
    if run.read_json("verify.json")["digest"] != made.digest:
        raise FenceError("what was verified is not this plan", run.url, "Start a new run")
    if verdict.newest_attempt(run, made.digest).verdict == verdict.ROLL_BACK:
        raise FenceError("this run was rolled back", run.url, "Start a new run")
