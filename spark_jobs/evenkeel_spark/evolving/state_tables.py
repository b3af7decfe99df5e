"""State tables that the spec has and the registry does not know, or the other way round.

The registry's record alone says that a table has joined or left. A new table is there, empty and
guarded, before its record; other jobs refuse it until then. A table that leaves has its record
before its guard goes. So a table that is lost is missed, and never made again as an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from evenkeel.registry.files.records import Membership
from evenkeel.spec.places.allowed_roots import check_inside
from evenkeel.table import Table
from evenkeel_spark.adoption.leaving import keeps
from evenkeel_spark.evolving.changes import Intent, Kind, TableChange
from evenkeel_spark.evolving.port import EvolvingTables
from evenkeel_spark.tables.membership import differing, half_left, known_tables
from evenkeel_spark.tables.moving import repair_advice
from evenkeel_spark.tables.table_properties import REGISTRY_PROPERTY, TABLE_PROPERTY
from partitioning.errors import FenceError, InputError
from partitioning.function.function import PartitioningFunction


@dataclass(frozen=True)
class StateTables:
    """The state tables of a spec, by what is to be done with them.

    Parameters
    ----------
    kept : names of those that are there
    new : those that are to join, by name; True: made already
    left : records of those that the registry is to know no more, by name
    guarded : of these, and of those that a killed call has left, the ones whose guard goes
    until : the day up to which the kept ones have all events, if there is a new one
    """

    kept: list[str]
    new: dict[str, bool]
    left: dict[str, Membership]
    guarded: dict[str, Membership]
    until: date | None

    def changes(self, function: PartitioningFunction, goes: str) -> list[TableChange]:
        """List what is to be done.

        Parameters
        ----------
        function : of the current epoch
        goes : says what goes from a table that leaves
        """
        split = len(function.split)
        several = f"; its {split:,} split keys keep several rows each" if split else ""
        made = [TableChange(Kind.add_table, *self._joins(name)) for name in self.new]
        for name, gone in (self.guarded | self.left).items():
            what = f"{goes}, its files stay{several}"
            if name not in self.guarded:
                what = "not touched, because it is lost, released, or another registry's"
            made.append(TableChange(Kind.drop_table, name, "", f"{what}: {gone.path}"))
        return made

    def _joins(self, name: str) -> tuple[str, str, str]:
        if self.new[name]:
            return name, "", "it is there already, as this registry made it"
        return name, "", f"empty; windows from {self.until} on fill it"


def find_tables(
    port: EvolvingTables, table: Table, intent: Intent, function: PartitioningFunction
) -> StateTables:
    """Compare the state tables of the spec with those that the registry knows.

    Parameters
    ----------
    function : of the current epoch

    Raises
    ------
    InputError : one is lost, a new one's place is not free, nothing says what became of one, or
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
    new = {name: port.joining(name, intent) for name in unknown}
    kept = [name for name in spec.state if name not in new]
    for name in kept:
        port.check_owned(name)
    left: dict[str, Membership] = {}
    for name in missing:
        if name not in intent.drops:
            raise InputError(
                f"state table {name!r} is not in the spec, and nothing says what became of it",
                f"{name} ({known[name]})",
                f"Put it back into the spec; or give --drop {name}: {port.what_goes}, its files "
                "stay",
            )
        guarded = _is_at_home(port, table, name, known[name], kept)
        left[name] = Membership(
            epoch=function.epoch,
            function=function.digest,
            path=known[name],
            left=True,
            guarded=guarded,
        )
        if guarded and (found := port.moving(left[name])) is not None:
            raise FenceError(
                f"has {found}: state moves, or is half moved",
                f"{name} ({known[name]})",
                f"Put it back into the spec; let the run end, or {repair_advice(spec.table)}; "
                "then take it out again",
            )
    begun = _left_before(port, table, known)
    guards = begun | {name: gone for name, gone in left.items() if gone.guarded}
    until = None if all(new.values()) else _common_end(port, table, kept)
    return StateTables(kept, new, left, guards, until)


def _left_before(
    port: EvolvingTables, table: Table, known: Mapping[str, str]
) -> dict[str, Membership]:
    """Return the records of tables that a killed call has left, and has not let go."""
    # A person may have put one back into the spec.
    here = {*known.values(), *(part.path for part in table.spec.state.values())}
    return {
        name: gone
        for name, gone in half_left(table.registry).items()
        if gone.path not in here
        and _owner(port, gone.path) == table.spec.table
        and port.moving(gone) is None
    }


def is_half_left(table: Table, path: str) -> bool:
    """Return whether a killed call has left a table, and has not let it go: it may come back."""
    return any(one.path == path for one in half_left(table.registry).values())


def _owner(port: EvolvingTables, path: str) -> str | None:
    return port.properties(path).get(TABLE_PROPERTY)


def _is_at_home(port: EvolvingTables, table: Table, name: str, path: str, kept: list[str]) -> bool:
    """Return whether a place that the registry names holds a table of this spec, and its own.

    A lake that was copied, with its registry, knows the folders that it was copied from. A registry
    that was copied alone names tables that the other one keeps.

    Raises
    ------
    InputError : a place is outside of the allowed roots
    """
    known, spec, where = known_tables(table.registry), table.spec, f"{name} ({path})"
    if any(spec.state[one].path != known.get(one, spec.state[one].path) for one in kept):
        return False
    if not spec.iceberg:
        check_inside({name: path}, f"registry of {spec.table}")
    if _owner(port, path) != spec.table:
        return False
    keeper = port.properties(path).get(REGISTRY_PROPERTY, table.registry.url)
    return keeper == table.registry.url or not keeps(keeper, path, where)


def _common_end(port: EvolvingTables, table: Table, kept: list[str]) -> date:
    """Return the day up to which all tables that are there have all events.

    Raises
    ------
    InputError : they differ, there is none, or no window is in
    """
    ends = {name: port.until(name) for name in kept}
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
