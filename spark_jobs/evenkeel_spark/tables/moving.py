"""Whether a run moves rows of a spec's tables, by its mark in the registry."""

from __future__ import annotations

from evenkeel.inspect.half_moved import find_half_moved
from evenkeel.registry.epochs import Registry
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.tables.delta.constraints import mend
from partitioning.errors import UnderWayError


def check_no_run_moves(spec: TableSpec, registry: Registry) -> None:
    """Refuse while a run has begun to move rows and has not ended.

    Raises
    ------
    UnderWayError : names the run
    """
    for name in registry.files.moving_runs() if registry.numbers() else []:
        if find_half_moved(registry, registry.run(name)) is not None:
            run = registry.run(name)
            raise UnderWayError(f"run {name} is moving rows", run.url, mend(spec.table))
