"""All table specs of a folder, and an error for each file that is wrong."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from evenkeel.spec import custom_merges
from evenkeel.spec.loading import TABLES_VARIABLE, is_folder, load_spec, spec_files
from evenkeel.spec.places import allowed_roots
from evenkeel.spec.places.apart import overlaps
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import FAULT, EvenkeelError, InputError, SetupError

#: Specs kept in a process: about 10 kB each.
CACHED_SPECS = 4096


@dataclass(frozen=True)
class Catalog:
    """The specs of a folder.

    Parameters
    ----------
    specs : by file, in order of name
    problems : one error for each file left out
    around : of `specs`, those in whose state table another spec has a place: no vacuum may run
    """

    specs: dict[Path, TableSpec]
    problems: tuple[EvenkeelError, ...]
    around: frozenset[Path] = frozenset()


def named_folder(configured: str | None) -> Path | None:
    """Return the folder of specs: `$EVENKEEL_TABLES`, or the configured one, or None.

    Parameters
    ----------
    configured : what `tables` in the section `[evenkeel]` of Airflow's configuration says
    """
    named = os.environ.get(TABLES_VARIABLE) or configured
    return Path(named).resolve() if named else None


def tables_folder(beside: Path, configured: str | None = None) -> Path:
    """Return the named folder of the specs, or else the folder `tables` in `beside`."""
    return named_folder(configured) or (beside / "tables").resolve()


def load_catalog(folder: Path) -> Catalog:
    """Read every `*.yaml` and `*.yml` file of the folder.

    Leave out a spec that is wrong, or that has the name or the registry of an earlier file, and
    return it as a problem. So is one that has a place in a state table of another, and a missing
    folder. Raise nothing.
    """
    specs: dict[Path, TableSpec] = {}
    problems: list[EvenkeelError] = []
    if not is_folder(folder):
        problems.append(SetupError("there is no such folder", str(folder), "Set EVENKEEL_TABLES"))
    names: dict[str, Path] = {}
    registries: dict[tuple[str, ...], Path] = {}
    for file in spec_files(folder):
        try:
            spec = load_unchanged(file)
            if other := names.get(spec.table):
                said = f"table: {spec.table!r} is already the name of {other.name}"
                raise InputError(said, str(file), "Choose another name")
            registry = allowed_roots.place_parts(spec.registry)
            if other := registries.get(registry):
                said = f"registry: {spec.registry} is already that of {other.name}"
                raise InputError(said, str(file), "Give each table a registry of its own")
        except EvenkeelError as error:
            problems.append(error)
        except Exception as error:
            # A fault of ours about one file takes no other table away.
            problems.append(InputError(f"{type(error).__name__}: {error}", str(file), FAULT))
        else:
            specs[file] = spec
            names[spec.table] = registries[registry] = file
    inside, around = overlaps(specs)
    for file, overlap in inside.items():
        del specs[file]
        problems.append(overlap)
    return Catalog(specs, tuple(problems), around & specs.keys())


def load_unchanged(file: Path) -> TableSpec:
    """Return the spec of a file, from this process's memory as long as nothing has changed."""
    try:
        stat = file.stat()
    except OSError:
        return load_spec(file)
    merges = os.environ.get(custom_merges.MERGES_VARIABLE)
    settings = merges, merges and _changed(merges), os.environ.get(allowed_roots.ROOTS_VARIABLE)
    return _loaded(file, (stat.st_mtime_ns, stat.st_size, stat.st_ino), settings)


@lru_cache(CACHED_SPECS)
def _loaded(file: Path, stamp: tuple[int, ...], settings: tuple[object, ...]) -> TableSpec:
    return load_spec(file)


def _changed(path: str) -> int | None:
    """Return when a file was changed; None if it is not there."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return None
