"""Which state tables a spec must have: those of the current epoch, but for what changed since.

A table joins or leaves by a record in the registry, which names the epoch. The next epoch has just
the tables that there are then, so a record counts no more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from evenkeel.registry.epochs import Epoch, Registry
from evenkeel.registry.files.records import Membership
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import InputError


def table_in_errors(spec: TableSpec, name: str) -> str:
    """Return a state table as errors name it."""
    return f"{name} ({spec.state[name].path})"


def check_not_released(spec: TableSpec, name: str) -> None:
    """Refuse a team's table without an owner if the registry tells that it was released.

    Raises
    ------
    InputError : says when
    """
    mark = Registry(spec.registry).files.released.find() if spec.plain else None
    if mark is not None:
        raise InputError(
            f"was released on {mark.time[:10]}",
            table_in_errors(spec, name),
            f"Run `evenkeel adopt {spec.table}` to adopt it again, or remove its spec",
        )


def changed_members(registry: Registry, epoch: Epoch) -> dict[str, Membership]:
    """Return what joined or left under an epoch, by name."""
    now, files, found = epoch.function.digest, registry.files, {}
    for name in files.members():
        record = files.member(name).find()
        if record is not None and record.function == now:
            found[name] = record
    return found


def half_left(registry: Registry) -> dict[str, Membership]:
    """Return the records of tables that have left, and whose guard may be there still, by name."""
    files = registry.files
    found = {name: files.member(name).find() for name in files.members()}
    return {n: one for n, one in found.items() if one is not None and one.left and one.guarded}


def known_tables(registry: Registry) -> dict[str, str]:
    """Return the folders of the state tables that there are, by name; none: no epoch."""
    if not registry.numbers():
        return {}
    # Once: another epoch may be published meanwhile.
    epoch = registry.current()
    found = {name: at.path for name, at in epoch.tables.items()}
    for name, record in changed_members(registry, epoch).items():
        if record.left:
            found.pop(name, None)
        else:
            found[name] = record.path
    return found


def differing(spec: TableSpec, known: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the state tables that only the spec has, and those that only the registry has.

    One that has another name by now, in the same folder, is in neither.

    Parameters
    ----------
    known : folders by name, as from `known_tables`

    Raises
    ------
    InputError : the spec has the folder of one table for another: rows of both would mix
    """
    unknown = [name for name in spec.state if name not in known]
    missing = [name for name in known if name not in spec.state]
    before, now = {known[n] for n in missing}, {spec.state[n].path for n in unknown}
    names = {path: name for name, path in known.items()}
    for name, part in spec.state.items():
        other = names.get(part.path, name)
        # One that has another name by now is in neither.
        if other != name and (other in spec.state or name in known):
            raise InputError(
                f"is the folder of state table {other!r}, and the spec has it for {name!r}",
                part.path,
                f"Correct the paths in the spec: {other!r} is known at {part.path}"
                + (f", {name!r} at {known[name]}" if name in known else ""),
            )
    return (
        [name for name in unknown if spec.state[name].path not in before],
        [name for name in missing if known[name] not in now],
    )


def check_members(spec: TableSpec, owner: Callable[[str], str | None]) -> None:
    """Refuse a spec with other state tables than the registry knows.

    A move would leave the rows of a missing one where they are, and no later epoch would know it.

    Parameters
    ----------
    owner : returns the table to whose spec a state table at a path belongs; None: to none

    Raises
    ------
    InputError : names the table and its folder
    """
    registry = Registry(spec.registry)
    known = known_tables(registry)
    unknown, missing = differing(spec, known)
    if unknown and known:
        own = "or give it a spec and a registry of its own"
        made = (
            f"or run `evenkeel evolve {spec.table}`, which makes it if Evenkeel has made the "
            "others (--dry-run: says what it would do). If it has left while a run was under way, "
            "roll that run back"
        )
        raise InputError(
            f"epoch {registry.current().number} knows no state table {unknown[0]!r}",
            table_in_errors(spec, unknown[0]),
            "Take it out of the spec; " + (own if spec.iceberg and spec.plain else made),
        )
    for name in missing:
        path = known[name]
        # One that a team has adopted leaves by its release, of which the registry knows nothing.
        if not spec.plain or owner(path) == spec.table:
            raise InputError(
                f"epoch {registry.current().number} has state table {name!r}, and the spec has not",
                f"{name} ({path})",
                "Put it back into the spec: its rows have to move with the others. To let it go: "
                + _way_out(spec, name),
            )


def _way_out(spec: TableSpec, name: str) -> str:
    """Return what lets a state table go."""
    release = "`evenkeel release` with a spec of that table alone"
    if spec.iceberg and spec.plain:
        return release
    evolve = f"`evenkeel evolve {spec.table} --drop {name}`"
    return f"{evolve}, or for a table that was adopted {release}"


def lost_tables(spec: TableSpec, occupied: Callable[[str], bool]) -> list[str]:
    """Return the names of the state tables of a spec that are gone, and that others can go without.

    None counts if all are gone, because a store that is not there looks so. Nor does one that the
    registry knows at another place: the spec has a wrong path then.

    Parameters
    ----------
    occupied : returns whether there is anything at a place
    """
    known = known_tables(Registry(spec.registry))
    here = {name: part.path for name, part in spec.state.items()}
    lost = [n for n, path in here.items() if known.get(n, path) == path and not occupied(path)]
    return lost if len(lost) < len(here) else []


def without_tables(spec: TableSpec, names: Collection[str]) -> TableSpec:
    """Return a spec without some of its state tables."""
    left = {name: part for name, part in spec.state.items() if name not in names}
    return spec.model_copy(update={"state": left})


def refuse_missing(spec: TableSpec, name: str) -> None:
    """Refuse a state table that the registry knows and whose folder has none.

    Raises
    ------
    InputError : names both folders, if they differ
    """
    path, known = spec.state[name].path, known_tables(Registry(spec.registry))
    if known:
        if len(spec.state) == 1:
            gone = "give the spec another path and registry, and make the table again"
        else:
            leave = "" if spec.plain else f", and run `evenkeel evolve {spec.table} --drop {name}`"
            gone = (
                f"remove what is left in the folder, and run `evenkeel repair {spec.table}`, which "
                f"ends a run. Then take it out of the spec{leave}"
            )
        raise InputError(
            f"holds no state table, and {name!r} is known at {known.get(name, path)}",
            path,
            "Correct the path in the spec, or bring the folder back. If it is gone for good, "
            f"{gone}",
        )
