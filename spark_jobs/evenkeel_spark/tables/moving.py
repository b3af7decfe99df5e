"""Whether a run moves rows of a spec's tables, and the advice where a table is half moved."""

from __future__ import annotations

from evenkeel.inspect.half_moved import find_half_moved
from evenkeel.registry.epochs import Registry
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import UnderWayError


def repair_advice(table: str) -> str:
    """Return the advice for a table from whose state no other job can go on."""
    return (
        f"Run `evenkeel repair {table} --dry-run`, which says what is wrong, then without "
        f"--dry-run, or the DAG repair_{table}"
    )


def check_no_run_moves(spec: TableSpec, registry: Registry) -> None:
    """Refuse while a run has begun to move rows and has not ended.

    Raises
    ------
    UnderWayError : names the run
    """
    for name in registry.files.moving_runs() if registry.numbers() else []:
        if find_half_moved(registry, registry.run(name)) is not None:
            run = registry.run(name)
            raise UnderWayError(f"run {name} is moving rows", run.url, repair_advice(spec.table))
