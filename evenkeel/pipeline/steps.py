"""What runs between the Spark jobs: decide, plan, gate, publish, report.

Each step reads what the steps before it left in the run's folder and leaves its own there, so
that a retry gives the same files and only the run's name travels through Airflow. Rows are
touched elsewhere; an epoch is published by the job that has looked at the tables.
"""

from __future__ import annotations

from dataclasses import replace

from evenkeel.pipeline.publish import check_passed, publish_checked
from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.registry.profiles import learned_from
from evenkeel.registry.run_folder import WATCHED, RunFolder
from evenkeel.registry.store import shaped
from evenkeel.registry.verdict import read_rolled_back
from evenkeel.runs.params import Params, goes_back
from evenkeel.runs.planning import decision_for, plan_back, plan_next
from evenkeel.runs.record import DECISION
from evenkeel.spec.loading import load_spec
from evenkeel.spec.table_spec import TableSpec
from evenkeel.watch.mitigation import plan_mitigation
from evenkeel.watch.state_file import read as read_watch
from partitioning.errors import EvenkeelError, FenceError, InputError
from partitioning.function.function import KeyColumn
from partitioning.planning.decide import Decision
from partitioning.planning.plan import Plan
from partitioning.workload.profile import Profile

__all__ = [
    "EvenkeelError",
    "Params",
    "decide",
    "open_run",
    "plan",
    "plan_rollback",
    "plan_watch",
    "publish",
    "publish_checked",
    "read_plan",
    "read_rolled_back",
    "report",
    "validate_plan",
    "watch_message",
]

#: What an epoch keeps of the run that led to it, and what of it is made anew later.
_KEPT = (
    "params.json",
    "decision.json",
    WATCHED,
    "plan.json",
    "approval.json",
    "profile.npz",
    "profile.json",
    "gate_plan.json",
    "migration.json",
    "gate_tables.json",
    "verify.json",
)
_REMADE = ("report.html",)


def decide(spec_path: str, run_id: str, params: Params) -> Decision:
    """Whether this run rebalances, and why; leaves `decision.json` and `params.json`.

    Raises
    ------
    InputError : a parameter that is wrong, or no profile
    FenceError : an epoch was published since the profile was learned
    """
    spec, registry, run = open_run(spec_path, run_id)
    epoch, profile, *_ = _read_profile(registry, run)
    decision = decision_for(spec, registry, epoch, profile, params)
    run.write_json("params.json", params.model_dump(mode="json"))
    run.write_json("decision.json", decision.to_dict())
    return decision


def plan(spec_path: str, run_id: str, params: Params) -> str:
    """Plan the way to the next epoch; leaves `plan.json` and returns the plan's digest.

    Raises
    ------
    InputError : an unknown strategy or option, channels that cannot be
    FenceError : an epoch was published since the profile was learned, or the run has begun to
        carry out another plan
    DamagedError : what was decided is torn
    """
    spec, registry, run = open_run(spec_path, run_id)
    epoch, profile, tables, row = _read_profile(registry, run)
    worth = None
    if run.exists("decision.json"):
        decided = shaped(run.read_json("decision.json"), run.path("decision.json"), **DECISION)
        worth = decided.get("worth")
    made = plan_next(spec, registry, epoch, profile, params, tables, row, worth)
    return _write_plan(registry, run, made)


def plan_rollback(spec_path: str, run_id: str, to_epoch: int) -> str:
    """Plan the way back to the placement of an earlier epoch; leaves `plan.json`, returns its
    digest. The result is a new epoch: what was written since then stays.

    Raises
    ------
    InputError : there is no such epoch, or it is the current one
    FenceError : as for `plan`
    """
    spec, registry, run = open_run(spec_path, run_id)
    epoch, profile, tables, _ = _read_profile(registry, run)
    if to_epoch == epoch.number:
        raise InputError(
            f"epoch {to_epoch} is the current one", spec.registry, "Name an earlier one"
        )
    target = registry.epoch(to_epoch)
    made = plan_back(spec, epoch, profile, target, tables)
    digest = _write_plan(registry, run, made)
    run.write_json("params.json", {"to_epoch": to_epoch})
    return digest


def plan_watch(spec_path: str, run_id: str) -> str | None:
    """Plan what the watch has decided in this run; leaves `plan.json` and returns its digest. None:
    it has decided nothing.

    Raises
    ------
    FenceError : as for `plan`
    """
    spec, registry, run = open_run(spec_path, run_id)
    if not run.exists(WATCHED):
        return None
    epoch, profile, tables, row = _read_profile(registry, run)
    return _write_plan(registry, run, plan_mitigation(spec, epoch, profile, run, tables, row))


def watch_message(spec_path: str) -> str:
    """What came of the newest micro-batch, in words."""
    known = read_watch(Registry(load_spec(spec_path).registry))
    return known.told if known is not None else "the watch has not looked yet"


def validate_plan(spec_path: str, run_id: str) -> None:
    """Run the expectation suite on the plan; leaves `gate_plan.json`.

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
        # Neither these nor those of the watch, of a moment, are for the balance of a day.
        going_back=goes_back(run) or run.exists(WATCHED),
    )
    run.write_json("gate_plan.json", gate.to_dict())
    gate.check(run.url)


def publish(spec_path: str, run_id: str) -> int:
    """Keep what the run has left beside the epoch that its job `verify` has published; returns the
    epoch's number. Doing it again changes nothing.

    This never creates an epoch: only who has just looked at the tables may (`publish_checked`).

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
    _archive_run(registry, run, number)
    return number


def report(spec_path: str, run_id: str) -> str | None:
    """Render the run as a page; leaves `report.html`, there and beside the epoch that the run
    published. Returns where the page is; None where the run left nothing to show."""
    from evenkeel.runs.report import render

    spec, registry, run = open_run(spec_path, run_id)
    if not run.exists("profile.json"):
        return None
    where = run.write("report.html", render(spec, registry, run).encode())
    if run.exists("plan.json"):
        made = read_plan(run)
        number = made.function.epoch
        if registry.published(number, made.digest):
            _archive_run(registry, run, number)
            where = registry.archive(number).path("report.html")
    return where


def read_plan(run: RunFolder) -> Plan:
    """The run's plan; InputError where there is none, DamagedError where it is torn."""
    return Plan.from_dict(run.read_json("plan.json"), f"{run.url}/plan.json")


def open_run(spec_path: str, run_id: str) -> tuple[TableSpec, Registry, RunFolder]:
    """What every step starts from."""
    spec = load_spec(spec_path)
    registry = Registry(spec.registry)
    return spec, registry, registry.run(run_id)


def _read_profile(
    registry: Registry, run: RunFolder
) -> tuple[Epoch, Profile, dict[str, int], KeyColumn | None]:
    """Current epoch, profile, the version of each table that the profile was weighed at, and the
    column by which keys may be split."""
    meta = learned_from(run.read_json("profile.json"), f"{run.url}/profile.json")
    epoch = registry.current()
    if meta["epoch"] != epoch.number:
        raise FenceError(
            f"epoch {epoch.number} was published since this profile was learned at "
            f"epoch {meta['epoch']}",
            run.url,
            "Start a new run",
        )
    profile = Profile.from_bytes(run.read("profile.npz"), f"{run.url}/profile.npz")
    return epoch, profile, meta["tables"], meta["row"]


def _write_plan(registry: Registry, run: RunFolder, made: Plan) -> str:
    """Leave the plan, but not over one that tables are on their way by: only that plan can
    bring them on, or back. The plan names the run: two runs never share a digest."""
    made = replace(made, run=run.name)
    if run.exists("migration.json") and run.exists("plan.json"):
        there, begun = read_plan(run), run.read_json("migration.json")["digest"]
        back = read_rolled_back(run, there.digest)
        if (
            there.digest == begun != made.digest
            and not (back and back["done"])
            and not registry.published(there.function.epoch, begun)
        ):
            raise FenceError(
                f"this run has begun to move rows by plan {begun[:12]}, another one",
                run.url,
                f"Run roll_back of run {run.name} with digest {begun} first, or start a new run "
                "after it",
            )
    run.write_json("plan.json", made.to_dict())
    return made.digest


def _archive_run(registry: Registry, run: RunFolder, number: int) -> None:
    """Copy what the epoch keeps of its run; an epoch is complete without it."""
    files, changing = (
        {name: run.read(name) for name in names if run.exists(name)} for names in (_KEPT, _REMADE)
    )
    registry.archive(number).keep(files, changing)
