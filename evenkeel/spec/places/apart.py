"""Places of specs stay apart: the vacuum of a state table removes what that table does not know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from evenkeel.spec.places.allowed_roots import place_parts
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import InputError

_SOURCE = "input.path"
_ADVICE = "Give each state table, registry and input a folder of its own"


class _Place(NamedTuple):
    """A place that a spec names.

    Parameters
    ----------
    file : of the spec
    ways : the parts of the path, with links followed and not: a vacuum goes through links
    vacuumed : it is a state table, whose vacuum removes what it does not know
    """

    file: Path
    field: str
    path: str
    ways: frozenset[tuple[str, ...]]
    vacuumed: bool


def check_apart(spec: TableSpec, file: Path) -> None:
    """Refuse a registry, an input or a state table in the folder of another state table.

    A vacuum passes over hidden folders. An input may be a state table itself.

    Raises
    ------
    InputError : names both
    """
    for place, outer, what in _inside({file: spec}):
        said = f"{place.field}: is {what} {outer.field} (got {place.path!r})"
        raise InputError(said, str(file), _ADVICE)


def overlaps(specs: Mapping[Path, TableSpec]) -> tuple[dict[Path, InputError], frozenset[Path]]:
    """Return an error for each spec with a place in another one's state table, and those others.

    Parameters
    ----------
    specs : by file
    """
    found: dict[Path, InputError] = {}
    around: set[Path] = set()
    for place, outer, what in _inside(specs):
        if outer.file != place.file:
            said = f"{place.field}: is {what} {outer.field} of {outer.file.name}"
            fix = f"{_ADVICE}. Until then that table has no maintain DAG, and this one has no DAG"
            error = InputError(f"{said} (got {place.path!r})", str(place.file), fix)
            found.setdefault(place.file, error)
            around.add(outer.file)
    return found, frozenset(around)


def _inside(specs: Mapping[Path, TableSpec]) -> Iterator[tuple[_Place, _Place, str]]:
    """Yield each place in a state table's folder, that state table, and how it is there."""
    places = [place for file, spec in specs.items() for place in _places(file, spec)]
    outers: dict[tuple[str, ...], _Place] = {}
    for place in places:
        for way in place.ways if place.vacuumed else ():
            outers.setdefault(way, place)
    for place in places:
        for way, size in ((w, n) for w in place.ways for n in range(len(w) + 1)):
            outer, below = outers.get(way[:size], place), way[size:]
            hidden = any(folder.startswith((".", "_")) for folder in below)
            if outer is not place and not hidden and (below or place.field != _SOURCE):
                yield place, outer, "inside of" if below else "that of"


def _places(file: Path, spec: TableSpec) -> Iterator[_Place]:
    delta = {f"state.{n}.path": t.path for n, t in spec.state.items() if t.format == "delta"}
    others = {"registry": spec.registry, _SOURCE: spec.input.path}
    for field, path in {**others, **delta}.items():
        ways = frozenset(place_parts(path, links) for links in (True, False))
        yield _Place(file, field, path, ways, field in delta)
