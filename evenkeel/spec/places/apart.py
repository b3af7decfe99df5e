"""Places of specs stay apart: the vacuum of a state table removes what that table does not know."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from pathlib import Path

from evenkeel.spec.places.allowed_roots import place_parts
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import InputError

_SOURCE, _REGISTRY = "input.path", "registry"


def check_apart(spec: TableSpec, file: str) -> None:
    """Refuse two things in one place, and one inside a state table's folder.

    The table's vacuum would remove what it does not know. It passes over hidden folders. An input
    may be a state table itself.

    Raises
    ------
    InputError : names both
    """
    for (at, (field, path)), (by, (other, outer)) in permutations(enumerate(_places(spec)), 2):
        # A vacuum looks behind a link inside of its folder, too.
        below = [_below(path, outer, links) for links in (True, False)]
        inside = any(b and not _hidden(b) for b in below)
        if () in below and at > by and _SOURCE not in (field, other):
            wrong = f"is that of {other.removesuffix('.path')}"
        elif inside and _is_state(other):
            wrong = f"is inside of {other}"
        else:
            continue
        raise InputError(
            f"{field}: {wrong} (got {path!r})",
            file,
            "Give each state table, the registry and the input a folder of its own",
        )


def overlaps(specs: Mapping[Path, TableSpec]) -> tuple[dict[Path, InputError], frozenset[Path]]:
    """Return an error for each spec with a place in another one's state table, and those others.

    Parameters
    ----------
    specs : by file
    """
    places = [
        (file, field, path, {place_parts(path, links) for links in (True, False)})
        for file, spec in specs.items()
        for field, path in _places(spec)
    ]
    outers: dict[tuple[str, ...], tuple[Path, str]] = {}
    for file, field, _, ways in places:
        for parts in ways if _is_state(field) else ():
            outers.setdefault(parts, (file, field))
    found: dict[Path, InputError] = {}
    around: set[Path] = set()
    for file, field, path, ways in places:
        for whole, size in ((way, n) for way in ways for n in range(len(way) + 1)):
            other, outer = outers.get(whole[:size], (file, ""))
            below = whole[size:]
            if other == file or _hidden(below) or (field == _SOURCE and not below):
                continue
            said = f"{field}: is {'inside' if below else 'that'} of {outer} of {other.name}"
            fix = "Give each state table, registry and input a folder of its own"
            found.setdefault(file, InputError(f"{said} (got {path!r})", str(file), fix))
            around.add(other)
    return found, frozenset(around)


def _places(spec: TableSpec) -> list[tuple[str, str]]:
    """List the fields of a spec that are places, with their paths."""
    delta = {n: table.path for n, table in spec.state.items() if table.format == "delta"}
    states = [(f"state.{name}.path", path) for name, path in delta.items()]
    return [(_REGISTRY, spec.registry), (_SOURCE, spec.input.path), *states]


def _is_state(field: str) -> bool:
    return field.startswith("state.")


def _hidden(folders: tuple[str, ...]) -> bool:
    return any(folder.startswith((".", "_")) for folder in folders)


def _below(path: str, outer: str, links: bool) -> tuple[str, ...] | None:
    """Return the folders from `outer` down to a path; None if it is not below."""
    whole, start = place_parts(path, links), place_parts(outer, links)
    return whole[len(start) :] if whole[: len(start)] == start else None
