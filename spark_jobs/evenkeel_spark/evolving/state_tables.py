"""State tables that the spec has and the registry does not know, or the other way round.

The registry's record alone says that a table has joined or left. A new table is there, empty and
guarded, before its record; other jobs refuse it until then. A table that leaves has its record
before its constraint goes. So a folder that is lost is missed, and never made again as an empty
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from pyspark.sql import SparkSession

from evenkeel.registry.files.records import Membership
from evenkeel.spec.allowed_roots import check_inside
from evenkeel.table import Table
from evenkeel_spark.adoption.release import keeps
from evenkeel_spark.evolving.changes import Intent, Kind, TableChange
from evenkeel_spark.tables.column_inputs import check_made_of
from evenkeel_spark.tables.declared_columns import check_made_from_events
from evenkeel_spark.tables.delta import constraints, filesystem, state
from evenkeel_spark.tables.delta.preflight import check_ours
from evenkeel_spark.tables.delta.unfinished_table import (
    MADE_PROPERTY,
    clear_unfinished,
    first_properties,
)
from evenkeel_spark.tables.membership import (
    differing,
    known_tables,
    owning_spec,
    refuse_missing,
)
from evenkeel_spark.tables.moving import repair_advice
from evenkeel_spark.windows.applied_windows import applied
from partitioning.errors import FenceError, InputError
from partitioning.function.function import PartitioningFunction


@dataclass(frozen=True)
class StateTables:
    """The state tables of a spec, by what is to be done with them.

    Parameters
    ----------
    kept : properties of those that are there, by name
    new : versions of those that are to join, by name; -1: to be made
    left : records of those that the registry is to know no more, by name
    guarded : of these, and of those that a killed call has left, the ones whose constraint goes
    until : the day up to which the kept ones have all events, if there is a new one
    """

    kept: dict[str, dict[str, str]]
    new: dict[str, int]
    left: dict[str, Membership]
    guarded: dict[str, Membership]
    until: date | None

    def changes(self, function: PartitioningFunction) -> list[TableChange]:
        """List what is to be done. `function` is of the current epoch."""
        split = len(function.split)
        several = f"; its {split:,} split keys keep several rows each" if split else ""
        made = [TableChange(Kind.add_table, *self._joins(name)) for name in self.new]
        for name, gone in (self.guarded | self.left).items():
            what = f"its constraint goes, its files stay{several}"
            if name not in self.guarded:
                what = "not touched, because it is lost, released, or another registry's"
            made.append(TableChange(Kind.drop_table, name, "", f"{what}: {gone.path}"))
        return made

    def _joins(self, name: str) -> tuple[str, str, str]:
        if self.new[name] >= 0:
            return name, "", "it is there already, as this registry made it"
        return name, "", f"empty; windows from {self.until} on fill it"


def find_tables(
    spark: SparkSession, table: Table, intent: Intent, function: PartitioningFunction
) -> StateTables:
    """Compare the state tables of the spec with those that the registry knows.

    Parameters
    ----------
    function : of the current epoch

    Raises
    ------
    InputError : one is lost, a new one's folder is not free, nothing says what became of one, or
        the others have not the same windows
    FenceError : state moves in one that is to go; or another call is making a new one
    """
    spec, known = table.spec, known_tables(table.registry)
    for name in spec.state:
        if name in intent.drops:
            raise InputError(
                f"cannot drop state table {name!r}: the spec still has it",
                f"spec of {spec.table}",
                "Take it out of the spec, or leave out --drop",
            )
    unknown, missing = differing(spec, known)
    new = {name: _joining_version(spark, table, name, intent) for name in unknown}
    kept: dict[str, dict[str, str]] = {}
    for name, part in spec.state.items():
        if name in new:
            continue
        if state.table_version(spark, part.path) < 0:
            refuse_missing(spec, name)
        kept[name] = check_ours(spark, spec, name)
        check_made_from_events(kept[name], f"{name} ({part.path})")
    left: dict[str, Membership] = {}
    for name in missing:
        if name not in intent.drops:
            raise InputError(
                f"state table {name!r} is not in the spec, and nothing says what became of it",
                f"{name} ({known[name]})",
                f"Put it back into the spec; or give --drop {name}: its constraint and its "
                "properties go, its files stay",
            )
        guarded = _is_at_home(spark, table, name, known[name], list(kept))
        left[name] = Membership(
            epoch=function.epoch,
            function=function.digest,
            path=known[name],
            left=True,
            guarded=guarded,
        )
        if guarded and is_moving(spark, left[name]):
            found = ", ".join(sorted(constraints.our_constraints(spark, known[name])))
            raise FenceError(
                f"has the constraint {found}: state moves, or is half moved",
                f"{name} ({known[name]})",
                f"Put it back into the spec; let the run end, or {repair_advice(spec.table)}; "
                "then take it out again",
            )
    begun = _left_before(spark, table, known)
    guards = begun | {name: gone for name, gone in left.items() if gone.guarded}
    until = _common_end(spark, table, list(kept)) if -1 in new.values() else None
    return StateTables(kept, new, left, guards, until)


def _left_before(
    spark: SparkSession, table: Table, known: Mapping[str, str]
) -> dict[str, Membership]:
    """Return the records of tables that a killed call has left, and has not let go."""
    files, found = table.registry.files, {}
    for name in files.members():
        gone = files.member(name).find()
        if gone is None or not (gone.left and gone.guarded) or gone.path in known.values():
            continue
        if owning_spec(spark, gone.path) == table.spec.table and not is_moving(spark, gone):
            found[name] = gone
    return found


def is_moving(spark: SparkSession, gone: Membership) -> bool:
    """Return whether a table has another constraint than that of the epoch in which it left."""
    found = constraints.our_constraints(spark, gone.path)
    return not found <= {constraints.epoch_name(gone.epoch)}


def _is_at_home(spark: SparkSession, table: Table, name: str, path: str, kept: list[str]) -> bool:
    """Return whether a folder that the registry names holds a table of this spec, and its own.

    A lake that was copied, with its registry, knows the folders that it was copied from. A registry
    that was copied alone names tables that the other one keeps.

    Raises
    ------
    InputError : a place is outside of the allowed roots
    """
    known, spec, where = known_tables(table.registry), table.spec, f"{name} ({path})"
    if any(spec.state[one].path != known.get(one, spec.state[one].path) for one in kept):
        return False
    check_inside({name: path}, f"registry of {spec.table}")
    if owning_spec(spark, path) != spec.table:
        return False
    keeper = state.properties(spark, path).get(state.REGISTRY_PROPERTY, table.registry.url)
    return keeper == table.registry.url or not keeps(keeper, path, where)


def _joining_version(spark: SparkSession, table: Table, name: str, intent: Intent) -> int:
    """Return the version of a table that joins; -1: it is to be made.

    One that is there was made by a call that was killed, or the registry was brought back from
    before it joined.

    Raises
    ------
    InputError : the folder holds anything else, or a table that was made of other input columns
    FenceError : another call is making it, or was killed just now
    """
    path = table.spec.state[name].path
    version, wanted = state.table_version(spark, path), first_properties(table, name)
    found = state.properties(spark, path) if version >= 0 else {}
    # How long versions stay may have changed since.
    ours = version >= 0 and all(
        found.get(key) == value for key, value in wanted.items() if key not in state.RETENTION
    )
    free = ours and MADE_PROPERTY not in found
    free = free or not filesystem.occupied(spark, path)
    if not free and not clear_unfinished(spark, path, rows=False, dry_run=True):
        raise InputError(
            "expected an empty folder for a new state table, found something in it",
            f"{name} ({path})",
            "Give the new table another path in the spec",
        )
    check_made_of(table.spec, name, found, same=intent.same)
    return version


def _common_end(spark: SparkSession, table: Table, kept: list[str]) -> date:
    """Return the day up to which all tables that are there have all events.

    Raises
    ------
    InputError : they differ, there is none, or no window is in
    """
    ends = {name: applied(spark, table, name).until for name in kept}
    end = next(iter(ends.values()), None)
    if len(set(ends.values())) != 1 or end is None:
        found = ", ".join(f"{name} up to {end}" for name, end in ends.items()) or "no other table"
        raise InputError(
            f"expected other state tables that have the same windows, found {found}",
            f"state of {table.spec.table}",
            "With the spec as it was, apply the last window again, which completes the tables that "
            "lack it, or the first window. A spec keeps one state table at least",
        )
    return end
