"""The approved plan of a run: read it, and check that it is the one that was approved."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, field
from functools import cached_property

from evenkeel.registry.files.run_files import RunFiles
from evenkeel.registry.verdict import newest_attempt
from evenkeel.table import Table
from evenkeel_spark.runtime.command import about
from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.tables.rows.placement_sql import moving_rules
from partitioning.errors import FenceError
from partitioning.function.function import PartitioningFunction
from partitioning.planning.plan import Plan

AGAIN = "Plan again: start a new run"


@dataclass(frozen=True, eq=False)
class Migration:
    """A plan to carry out or undo: its table, its run, and the functions of both epochs.

    The constraints, their rules and `in_order` are those of Delta tables.
    """

    table: Table
    run: RunFiles
    plan: Plan
    before: PartitioningFunction
    after: PartitioningFunction
    #: Number of the attempt to carry it out, as `evenkeel.registry.verdict` counts them.
    attempt: int = 1
    #: Version up to which `fence` has found each state table's history in order, to read on from.
    in_order: dict[str, int] = field(default_factory=dict)

    @property
    def old(self) -> str:
        """Name of the constraint of the epoch that the plan starts from."""
        return constraints.epoch_name(self.before.epoch)

    @property
    def moving(self) -> str:
        """Name of the constraint that admits both epochs."""
        # Plans of earlier versions of Evenkeel name no run, nor did their constraint.
        return constraints.moving_name(self.after.epoch, self.plan.digest if self.plan.run else "")

    @property
    def new(self) -> str:
        """Name of the constraint of the epoch that the plan leads to."""
        return constraints.epoch_name(self.after.epoch)

    @cached_property
    def rules(self) -> dict[str, list[str]]:
        """The CHECK expressions that the three constraints may have, by name; first as added."""
        spec = self.table.spec
        return {
            self.old: [constraints.fence_rule(spec, self.before)],
            self.moving: moving_rules(spec, self.before, self.after),
            self.new: [constraints.fence_rule(spec, self.after)],
        }

    def path(self, name: str) -> str:
        """Return the folder of the state table called `name`."""
        return self.table.spec.state[name].path

    def meta(self, step: str) -> dict[str, object]:
        """Return what our commits record about themselves in the table's history."""
        return {
            "digest": self.plan.digest,
            "epoch": self.after.epoch,
            "run": self.run.name,
            "step": step,
        }


def approved_migration(table: Table, run: str, digest: str) -> Migration:
    """Read the run's plan and check that it is the one that was approved.

    Raises
    ------
    InputError : the run has no plan
    DamagedError : it is torn
    FenceError : it is not the plan of that digest, or another table's
    """
    folder = table.registry.run(run)
    plan, where = folder.plan.read(), folder.plan.path
    if plan.digest != digest:
        raise FenceError(
            f"holds plan {plan.digest[:12]}, not {digest[:12]}, which was approved", where, AGAIN
        )
    if plan.run not in ("", folder.name):
        raise FenceError(f"is the plan of run {plan.run}", where, AGAIN)
    if plan.table != table.spec.table or set(plan.tables) != set(table.spec.state):
        raise FenceError(
            f"is a plan for {plan.table!r} ({', '.join(sorted(plan.tables))}), the spec has "
            f"{table.spec.table!r} ({', '.join(sorted(table.spec.state))})",
            where,
            "Set the state tables of the spec back until this run has ended, or is rolled back; if "
            "it has not begun to move state, start a new run",
        )
    before = table.epoch(plan.parent_epoch).function
    same_rows = plan.function.row_slots == before.row_slots
    if not plan.function.parent == plan.parent_digest == before.digest or not same_rows:
        raise FenceError(
            f"epoch {plan.parent_epoch} is not the one that this plan starts from", where, AGAIN
        )
    number = newest_attempt(folder, plan.digest).number
    return Migration(table, folder, plan, before, plan.function, number)


def requested_migration(table: Table, options: Namespace) -> Migration:
    """Read the approved plan of a job's run, and name its epoch in the lines of progress."""
    migration = approved_migration(table, options.run, options.digest)
    about(epoch=migration.after.epoch)
    return migration


def published(migration: Migration) -> bool:
    """Return whether the plan's epoch is published, and by this plan."""
    registry = migration.table.registry
    return registry.published(migration.after.epoch, migration.plan.digest)


def check_approved(migration: Migration) -> None:
    """Raise FenceError if the run's answer is no, or of another plan, or a person is still asked.

    A plan that was cleared in Airflow, without the tasks after it, is one that nobody was asked
    about. A run by hand asks nobody, and needs no answer.
    """
    said, digest = migration.run.approval.find(), migration.plan.digest
    if said is None and migration.run.question.exists():
        raise FenceError(
            f"expected an answer to plan {digest[:12]}, found that a person is still asked",
            migration.run.question.path,
            "Answer in Airflow, or on the page of the run",
        )
    if said is not None and not (said.approved and said.digest in (None, digest)):
        answer = f"{'approved' if said.approved else 'refused'} plan {(said.digest or digest)[:12]}"
        raise FenceError(
            f"expected approval of plan {digest[:12]}; found: {said.by} has {answer}",
            migration.run.approval.path,
            _ask_again(migration),
        )


def _ask_again(migration: Migration) -> str:
    """Return the advice for a plan that is not approved: a run asks a person about one plan."""
    asked = migration.run.question.find()
    if asked is not None and asked.digest != migration.plan.digest:
        return "Start a new run: this one asks about its first plan alone"
    return "Clear the task approve with all tasks after it, or start a new run"
