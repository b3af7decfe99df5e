"""All table specs of a folder: those that are right, and what is wrong with the others."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from evenkeel.spec.loading import load_spec
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import EvenkeelError, InputError


@dataclass(frozen=True)
class Catalog:
    """`specs` by file, in order of name; `problems`: one error for each file left out."""

    specs: dict[Path, TableSpec]
    problems: tuple[EvenkeelError, ...]


def tables_folder(beside: Path) -> Path:
    """`$EVENKEEL_TABLES`, or the folder `tables` in `beside`."""
    return Path(os.environ.get("EVENKEEL_TABLES") or beside / "tables").resolve()


def load_catalog(folder: Path) -> Catalog:
    """Read every `*.yaml` of the folder. A spec that is wrong, or that has the name or the
    registry of a file before it, is left out and told as a problem; a missing folder is one."""
    specs: dict[Path, TableSpec] = {}
    problems: list[EvenkeelError] = []
    if not folder.is_dir():
        problems.append(InputError("there is no such folder", str(folder), "Set EVENKEEL_TABLES"))
    for file in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        try:
            spec = load_spec(file)
            for other, known in specs.items():
                if known.table == spec.table:
                    said = f"table: {spec.table!r} is already the name of {other.name}"
                    raise InputError(said, str(file), "Choose another name")
                if known.registry == spec.registry:
                    said = f"registry: {spec.registry} is already that of {other.name}"
                    raise InputError(said, str(file), "Give each table a registry of its own")
        except EvenkeelError as error:
            problems.append(error)
        else:
            specs[file] = spec
    return Catalog(specs, tuple(problems))
