"""The points of a step: each moment at which it touches the world, or that its job names.

Nothing in production knows of them. A file of the registry is about to be written, stands beside
its place, is in place, is about to be removed; the input is about to be read; a statement is about
to commit to a table, or just has. The same step on the same table passes the same points, so the
n-th of them is a moment that can be come back to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaMergeBuilder, DeltaTableBuilder
from pyspark.sql import DataFrameWriterV2, SparkSession

from evenkeel.registry.files.whole_files import Linked
from evenkeel.registry.store import Store
from evenkeel_spark.adoption import adopt, release
from evenkeel_spark.evolving import delta_tables
from evenkeel_spark.iceberg import adopt as iceberg_adopt
from evenkeel_spark.jobs import learn
from evenkeel_spark.tables.delta import constraints
from evenkeel_spark.tables.iceberg.schema_commit import SchemaCommit

Point = Callable[[str], None]

_COMMITS = re.compile(
    r"(?:ALTER TABLE|(UPDATE|OPTIMIZE|VACUUM|MERGE)(?: INTO)?) delta\.`([^`]*)`"
    r"(?: (\w+ CONSTRAINT \w+))?"
)
#: The same of an Iceberg table, by its name in a catalog; of a branch of it, too.
_ICEBERG = re.compile(
    r"(?:ALTER TABLE|(UPDATE|MERGE|DELETE)(?: INTO| FROM)?) "
    r"(?:`\w+`\.)+?`(\w+)`(?:\.`branch_\w+`)?(?= )"
    r"(?: ((?:CREATE|DROP|ADD|RENAME|ALTER|SET|UNSET) \w+))?"
)
_CALLED = re.compile(r"CALL `\w+`\.system\.(\w+)\(table => '(?:`\w+`\.)+`(\w+)`'")
#: What commits by no SQL, as people read it.
_BUILDERS = {
    (DeltaMergeBuilder, "execute"): "MERGE of rows",
    (DeltaTableBuilder, "execute"): "CREATE without rows",
    (DataFrameWriterV2, "create"): "CREATE with rows",
    (DataFrameWriterV2, "overwrite"): "OVERWRITE of rows",
    (DataFrameWriterV2, "append"): "APPEND of rows",
}
#: A file that is made to see whether one may; its name is never the same.
_PROBE = re.compile(r"\.probe\.[0-9a-f]+$")


class Stop(BaseException):
    """The abrupt end of a step: no handler of ours stops it, none undoes anything on its way."""


class Fault:
    """Does `act` at the n-th point (from 0) that it is told of, or at the first one of a label,
    once; keeps what it has seen.

    What `act` itself does passes no points.
    """

    def __init__(self, at: int | str | None = None, act: Callable[[], None] = lambda: None) -> None:
        self.at, self.act = at, act
        self.seen: list[str] = []
        self._acting = False

    def __call__(self, label: str) -> None:
        if self._acting:
            return
        self.seen.append(label)
        if self.at in (len(self.seen) - 1, label):
            self.at, self._acting = None, True
            self.act()
            self._acting = False


def stopped(step: Callable[[], object], at: int | str | None) -> list[str]:
    """Do a step up to its point `at`, or to its end; return the points that it came to.

    They are more than `at` if the step was stopped there.
    """

    def stop() -> None:
        raise Stop

    fault = Fault(at, stop)
    with suppress(Stop), watched(fault):
        step()
    return fault.seen


@contextmanager
def watched(point: Point) -> Iterator[None]:
    """Tell `point` of every point that is passed inside."""
    with pytest.MonkeyPatch.context() as patch:

        def around(owner: Any, name: str, before: bool, after: str | None) -> None:
            real = getattr(owner, name)

            def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                what = _label(owner, name, self, args)
                if before and what:
                    point(f"before {what}")
                result = real(self, *args, **kwargs)
                if after and what:
                    point(f"{after} {what}")
                return result

            static = isinstance(owner.__dict__[name], staticmethod)
            patch.setattr(owner, name, staticmethod(call) if static else call)

        around(Store, "write", True, None)
        around(Store, "remove", True, None)
        around(Store, "create", True, None)
        around(Linked, "_temporary", False, "beside its place:")
        around(Path, "hardlink_to", False, "in place:")
        around(SparkSession, "sql", True, "after")
        for builder, name in _BUILDERS:
            around(builder, name, True, "after")
        around(iceberg_adopt, "add_columns", True, "after")
        around(SchemaCommit, "commit", True, "after")
        around(constraints, "drop_beside", True, "after")
        around(constraints, "put", True, "after")
        around(learn, "read_events", True, None)
        around(adopt, "change", True, "after")
        around(release, "change", True, "after")
        around(delta_tables, "change", True, "after")
        patch.setattr(
            "evenkeel_spark.runtime.crash_point.reached", lambda name: point(f"named {name}")
        )
        yield


def _label(owner: Any, name: str, of: Any, args: tuple[Any, ...]) -> str | None:
    """What a call does, as people read it; None: it changes nothing."""
    if owner is SparkSession:
        if (found := _COMMITS.match(args[0])) is not None:
            return f"{found[3] or found[1] or 'ALTER'} on {Path(found[2]).name}"
        if (found := _ICEBERG.match(args[0])) is not None:
            return f"{found[1] or found[3]} on {found[2]}"
        found = _CALLED.match(args[0])
        return None if found is None else f"{found[1]} on {found[2]}"
    if owner is iceberg_adopt:
        return f"ADD of columns on {of.name.rpartition('.')[2]}"
    if owner is SchemaCommit:
        return "change of columns"
    if owner is constraints:
        what = "DROP" if name == "drop_beside" else "PUT"
        return f"{what} CONSTRAINT {args[1]} on {Path(args[0]).name}"
    if (owner, name) in _BUILDERS:
        return _BUILDERS[owner, name]
    if owner is learn:
        return "reading the input"
    if owner in (adopt, release, delta_tables):
        return f"REWRITE of {Path(args[0]).name}"
    # Linked is given the path as its first argument, a Path is the file itself.
    label = f"{name} {args[0]}" if owner is Store else Path(of).name
    return _PROBE.sub(".probe", label)
