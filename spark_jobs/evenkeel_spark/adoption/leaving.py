"""Checks that releases of Delta and of Iceberg tables share, and the mark of a release."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.records import ReleaseRecord
from evenkeel.spec.places.allowed_roots import check_inside
from evenkeel.table import Table
from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.tables.membership import known_tables
from evenkeel_spark.tables.table_properties import REGISTRY_PROPERTY
from partitioning.errors import InputError

#: Table properties that begin so are Evenkeel's, its constraints among them.
OUR_PROPERTIES = ("evenkeel.", constraints.property_name(constraints.OURS))


def made_by_us(name: str, path: str) -> InputError:
    """Return the error of a table that bootstrap has made."""
    return InputError(
        "Evenkeel made it: without its placement, a split key counts several times",
        f"{name} ({path})",
        "Leave its `columns` in the spec. To leave Evenkeel, read it by `evenkeel.open_table`, and "
        "make a table of your own from that",
    )


def check_not_kept(table: Table, name: str, known: str | None, registry_lost: bool) -> None:
    """Refuse a table that a registry keeps which is not the spec's.

    Parameters
    ----------
    known : the registry that the table names
    registry_lost : as in `release`

    Raises
    ------
    InputError : another registry keeps it, or that of the spec is not lost
    """
    ours, path = table.registry, table.spec.state[name].path
    where = f"{name} ({path})"
    if known is not None and known != ours.url and keeps(known, path, where):
        raise InputError(
            f"was adopted with registry {known}, which keeps it; the spec has {ours.url}",
            where,
            "Correct `registry` in the spec",
        )
    if registry_lost and ours.numbers():
        raise InputError("has epochs: it is not lost", ours.url, "Release without --registry-lost")


def check_not_lost(table: Table, name: str) -> None:
    """Refuse an adopted table while its registry has no epoch: a new one would not be its own.

    Raises
    ------
    InputError : says how to leave
    """
    if not table.registry.numbers():
        raise InputError(
            f"is adopted, and {table.registry.url} has no epoch",
            f"{name} ({table.spec.state[name].path})",
            "Correct `registry` in the spec, or bring it back from its backup. If it is lost for "
            f"good, run `evenkeel release {table.spec.table} --registry-lost`",
        )


def keeps(url: str, path: str, where: str) -> bool:
    """Return whether the registry that a table names has this very table, and not a copy of it."""
    check_inside({REGISTRY_PROPERTY: url}, where)
    registry = Registry(url)
    return path in known_tables(registry).values()


def mark_released(table: Table, owner: Callable[[str], str | None]) -> None:
    """Note in the registry that all tables are the team's again, for other jobs to say so.

    Parameters
    ----------
    owner : returns the spec that the table at a path is adopted by
    """
    if not table.registry.numbers() or table.registry.files.released.exists():
        return
    spec, known = table.spec, known_tables(table.registry)
    # One with a spec of its own may leave alone.
    if any(owner(known[n]) == spec.table for n in known if n not in spec.state):
        return
    now = datetime.now(UTC).isoformat("T", "seconds")
    table.registry.files.released.write(ReleaseRecord(time=now))
