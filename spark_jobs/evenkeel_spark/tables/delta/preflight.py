"""Whether state tables are what a spec says and may be written: asked before any is touched."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from evenkeel.registry.epochs import Registry
from evenkeel.spec.parts import StateTable
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.tables.delta.state import (
    SLOTS_PROPERTY,
    VECTORS_PROPERTY,
    check_owner,
    comparable,
    schema,
    snapshot,
    sql_name,
    table_version,
)
from partitioning.errors import InputError

#: Merge of each state column, as JSON: a property of each state table.
COLUMNS_PROPERTY = "evenkeel.columns"
#: Says that a table on S3 has one writer at a time; see `check_log_store`.
ONE_DRIVER = "spark.evenkeel.oneDriver"
_FIX = (
    "State columns are fixed at bootstrap: set it back, or bootstrap into another path and registry"
)


def check_tables(spark: SparkSession, spec: TableSpec) -> None:
    """Refuse state tables that are not there, not this spec's, of other columns, or that disagree
    on S.

    Raises
    ------
    InputError : names the folder, or both where two disagree
    """
    found = {}
    for name, state in spec.state.items():
        if table_version(spark, state.path) < 0:
            _refuse_new(spec, name)
        found[name] = check_owner(spark, state.path, spec.table)
    slots = {
        f"{name} ({state.path})": found[name].get(SLOTS_PROPERTY, "none")
        for name, state in spec.state.items()
    }
    if len(set(slots.values())) > 1:
        said = ", ".join(f"{place} {count}" for place, count in slots.items())
        raise InputError(
            f"state tables disagree on the number of slots: {said}",
            f"state of {spec.table}",
            "Tables of one spec share S for ever: bootstrap the odd one again from its input",
        )
    if slots and (made := next(iter(slots.values()))) != str(spec.slots):
        raise InputError(
            f"state was made with slots = {made}, the spec says {spec.slots}",
            next(iter(slots)),
            "The number of slots never changes: set it back",
        )
    check_comparable(spark, spec)
    for name, state in spec.state.items():
        stored = snapshot(spark, state.path).metadata().schema().fieldNames()
        check_columns(name, state, found[name], list(stored))
        if found[name].get(VECTORS_PROPERTY) != "true":
            raise InputError(
                "its deletion vectors are off: a move would write whole files anew",
                f"{name} ({state.path})",
                f"ALTER TABLE {sql_name(state.path)} SET TBLPROPERTIES "
                f"('{VECTORS_PROPERTY}' = 'true')",
            )


def check_comparable(spark: SparkSession, spec: TableSpec) -> None:
    """Refuse state tables with a column of which nobody could tell whether a move changed it.

    Raises
    ------
    InputError : names the table, the column and its type
    """
    for name, state in spec.state.items():
        for column in schema(spark, state.path):
            if not comparable(column.dataType):
                raise InputError(
                    f"column {column.name!r} is {column.dataType.simpleString()}: rows with a map "
                    "or a variant cannot be compared before and after they move",
                    f"{name} ({state.path})",
                    "Keep it in another table; or copy it into an array of structs, or a string, "
                    "and drop the column",
                )


def _refuse_new(spec: TableSpec, name: str) -> None:
    """Refuse a state table that is not there where epochs are: bootstrap, which makes tables,
    makes none then."""
    registry, path = Registry(spec.registry), spec.state[name].path
    if not registry.numbers():
        return
    epoch = registry.current()
    if (known := epoch.tables.get(name)) is None:
        raise InputError(
            f"epoch {epoch.number} knows no state table {name!r}: they are fixed at bootstrap",
            path,
            "Take it out of the spec; or bootstrap under another `table`, with a registry and "
            "paths of its own",
        )
    raise InputError(
        f"holds no state table, and epoch {epoch.number} has {name!r} at {known.path}",
        path,
        "Correct the path in the spec, or bring the folder back",
    )


def declared(state: StateTable) -> str:
    """Value of `COLUMNS_PROPERTY` for a table of the spec."""
    return json.dumps({n: c.merge for n, c in state.columns.items()}, sort_keys=True)


def check_columns(
    name: str, state: StateTable, properties: Mapping[str, str], stored: Collection[str]
) -> None:
    """Refuse a spec whose state columns are not those that the table was made with: old values
    would be merged with new ones of another meaning.

    Parameters
    ----------
    name : of the state table, in the spec
    properties : of the Delta table; one made before the property was kept is known by its column
        names alone
    stored : names of all columns of the Delta table

    Raises
    ------
    InputError : names the first column that differs, what it was, and what it is
    """
    where = f"{name} ({state.path})"
    kept = properties.get(COLUMNS_PROPERTY)
    made: dict[str, str | None] = dict.fromkeys(stored) if kept is None else json.loads(kept)
    for column, asked in state.columns.items():
        if column not in made:
            raise InputError(
                f"there is no state column {column!r}, which the spec makes by {asked.merge}; "
                f"it was made with {', '.join(made)}",
                where,
                _FIX,
            )
        if (was := made[column]) is not None and was != asked.merge:
            raise InputError(
                f"column {column!r} was made by merge {was}, the spec says {asked.merge}",
                where,
                _FIX,
            )
    if kept is not None and (gone := [c for c in made if c not in state.columns]):
        raise InputError(
            f"column {gone[0]!r} was made by merge {made[gone[0]]}, the spec has no such column",
            where,
            _FIX,
        )


def check_log_store(spark: SparkSession, spec: TableSpec) -> None:
    """Refuse state tables on S3 where nothing keeps two drivers' commits apart.

    Raises
    ------
    InputError : Delta's own log store for S3 would be used, which knows of its own driver alone
    """
    alone = spark.conf.get(ONE_DRIVER, "false") == "true"
    for part in spec.state.values():
        scheme = urlsplit(part.path).scheme
        kept = f"spark.delta.logStore.{scheme}.impl"
        if scheme in ("s3", "s3a", "s3n") and not (alone or spark.conf.get(kept, None)):
            raise InputError(
                "on S3 Delta lets one driver overwrite another's commit",
                part.path,
                f"Set {kept} to a log store that does not, or {ONE_DRIVER}=true where no two "
                "programs ever write at once; see docs/OPERATIONS.md",
            )
