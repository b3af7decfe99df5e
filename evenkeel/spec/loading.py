"""Loading of a spec's file: find it, check it, and report every wrong field in one message."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evenkeel.spec.field_errors import field_rule
from evenkeel.spec.parts import (
    ChannelSpec,
    Input,
    Partitions,
    Splitting,
    StateColumn,
    StateTable,
    Strict,
    Watching,
)
from evenkeel.spec.places.allowed_roots import check_inside
from evenkeel.spec.places.apart import check_apart
from evenkeel.spec.strict_yaml import read_yaml
from evenkeel.spec.table_spec import MAX_CHANNELS, TableSpec
from partitioning.errors import EvenkeelError, InputError, SetupError
from partitioning.function.function import DEFAULT_SLOTS

#: Folder of the specs, for a table given by its name. Default: ./tables. `load_tables` takes
#: its argument, this, or `[evenkeel] tables`.
TABLES_VARIABLE = "EVENKEEL_TABLES"
#: Advice for wrong fields, each of which the message names.
CORRECT_FIELDS = "Correct these fields"
#: Tags that pydantic adds to the place of an error for fields with several forms.
_FORMS = (("list",), ("number",), ("auto",), ("text",), ("mapping",))
#: Allowed values of fields with several forms.
_ALLOWED = {
    ("channels",): f"a number from 1 to {MAX_CHANNELS:,}, or a list of names and capacities",
    ("decay",): "auto, or a number from 0 to 1",
}


def load_spec(path: str | Path) -> TableSpec:
    """Read and check a spec. Make its relative paths absolute, from the spec's folder.

    Raises
    ------
    InputError : one message that names every wrong field, its value and what is allowed
    """
    file = Path(path)
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise InputError(
            "expected a table spec, a mapping of fields", str(path), "Begin with `table: NAME`"
        )
    try:
        spec = TableSpec.model_validate(data)
    except ValidationError as error:
        problems = "; ".join(_problem(e) for e in error.errors())
        raise InputError(problems, str(path), CORRECT_FIELDS) from error
    folder = file.resolve().parent
    # An Iceberg table has a name in a catalog, and the catalog knows its folder.
    state = {
        n: t.model_copy(update={"path": _absolute(t.path, folder)})
        for n, t in spec.state.items()
        if t.format == "delta"
    }
    registry = _absolute(spec.registry, folder)
    names = [t.path for t in spec.state.values() if t.format == "iceberg"]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(
            f"state: {twice[0]} is given twice", str(path), "Name each Iceberg table once"
        )
    source = spec.input.model_copy(update={"path": _absolute(spec.input.path, folder)})
    named = {f"state.{n}.path": t.path for n, t in state.items()}
    check_inside({"input.path": source.path, "registry": registry, **named}, str(path))
    placed = {"input": source, "state": {**spec.state, **state}, "registry": registry}
    whole = spec.model_copy(update=placed)
    check_apart(whole, file)
    return whole


def is_folder(path: Path) -> bool:
    """Return whether it is a folder; no, if one over it may not be entered."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises


def spec_files(folder: Path) -> list[Path]:
    """List the files of specs in a folder, in order of name; none if it may not be entered."""
    if not is_folder(folder):
        return []
    return sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])


def find_spec(table: str) -> Path:
    """Find the spec file of a table.

    Parameters
    ----------
    table : a path that ends with .yaml or .yml, or a table's name. A name is looked up in
        `$EVENKEEL_TABLES`, or in ./tables

    Raises
    ------
    SetupError : the folder is missing; or no table has this name, and it lists those that exist
    InputError : the file with this name has a spec of another table
    """
    if table.endswith((".yaml", ".yml")):
        return Path(table)
    folder = Path(os.environ.get(TABLES_VARIABLE) or "tables")
    files = spec_files(folder)
    own = next((file for file in files if file.stem == table), None)
    if own is not None:
        if (other := _table_of(own)) != table:
            raise InputError(
                f"table: expected {table!r}, as its file is named (got {other!r})",
                str(own),
                "Correct one of the two, or give the spec's path",
            )
        return own
    named = {_table_of(file): file for file in reversed(files)}
    if not is_folder(folder):
        raise SetupError(
            f"expected a folder with the spec of table {table!r}, found none",
            str(folder.absolute()),
            f"Set {TABLES_VARIABLE} to the folder of your specs, or give the spec's path",
        )
    if table not in named:
        known = ", ".join(sorted(named)) or "none"
        raise SetupError(
            f"there is no table {table!r}",
            str(folder.absolute()),
            f"Known: {known}. Set {TABLES_VARIABLE} or give the spec's path",
        )
    return named[table]


def _table_of(file: Path) -> str:
    """Return the table that a spec names; the file's own name if it cannot be read."""
    try:
        data = read_yaml(file)
    except EvenkeelError:
        return file.stem
    return str(data.get("table", file.stem)) if isinstance(data, dict) else file.stem


def _absolute(path: str, folder: Path) -> str:
    return path if "://" in path or Path(path).is_absolute() else os.path.normpath(folder / path)


def check_enough_slots(spec: TableSpec, file: str) -> None:
    """Refuse fewer slots than channels: a slot has one channel, so some would get no light key.

    A channel of capacity 0 is to get none. Jobs of a table that has begun so go on.

    Raises
    ------
    InputError : there are fewer
    """
    if spec.slots < (channels := sum(c.capacity > 0 for c in spec.channel_list())):
        raise InputError(
            f"slots: must be at least as many as the channels, {channels:,} (got {spec.slots:,})",
            file,
            f"Leave `slots` out, for {DEFAULT_SLOTS:,}. A table that has begun takes "
            "a multiple of its slots, or fewer channels",
        )


def check_slot_multiple(spec: TableSpec, known: str, where: str) -> None:
    """Refuse slots that are neither those known nor a multiple, into which each can be split.

    Nothing leads back from a split. So a spec that has lost its `slots` splits none.

    Parameters
    ----------
    known : number of slots of the epoch or of rows, as text; any other text is refused
    where : what has them

    Raises
    ------
    InputError : names both numbers
    """
    if not (known.isdecimal() and int(known)) or spec.slots % int(known):
        raise InputError(
            f"has slots = {known}, the spec says {spec.slots}, which is no multiple",
            where,
            "Set it back, or to a multiple of the slots that `evenkeel show` says",
        )
    if spec.slots != int(known) and "slots" not in spec.model_fields_set:
        raise InputError(
            f"has slots = {known}, the spec gives none, which means {spec.slots}",
            where,
            f"Give `slots: {known}`; or, to split slots for good, `slots: {spec.slots}`",
        )


def _problem(error: Any) -> str:
    where = error["loc"]
    if where[0:1] in (("channels",), ("decay",), ("schedule",)) and where[1:2] in _FORMS:
        # This part names a form of the field. A user's spec has no such field.
        where = (where[0], *where[2:])
    field = ".".join(str(p) for p in where) or "spec"
    shown = repr(error.get("input"))
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    if error["type"] == "missing":
        return f"{field}: is missing"
    if error["type"] == "extra_forbidden":
        allowed = ", ".join(_model(where[:-1]).model_fields)
        return f"{field}: there is no such field (got {shown}; allowed: {allowed})"
    said = field_rule(error)
    if where in _ALLOWED:
        shown += f"; allowed: {_ALLOWED[where]}"
    # A rule between fields names the values itself: its input is the whole spec.
    return f"{field}: {said} (got {shown})" if where else said


def _model(where: tuple[Any, ...]) -> type[Strict]:
    """Return the model of the mapping at a place in a spec."""
    if not where:
        return TableSpec
    within: dict[str, type[Strict]] = {
        "input": Input,
        "channels": ChannelSpec,
        "schedule": Partitions,
        "state": StateTable,
        "split": Splitting,
        "watch": Watching,
    }
    return StateColumn if "columns" in where[2:3] else within[where[0]]
