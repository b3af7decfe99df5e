"""Tables whose rows may stand in wrong places: what says so, and what has outdated it since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from evenkeel.quality.data_docs import Page
from evenkeel_ui.access import PAGED, REPAIR, ROLL_BACK
from evenkeel_ui.airflow_runs.newest import dry_run
from evenkeel_ui.airflow_runs.triage import MOVERS, RunRow
from evenkeel_ui.statuses import NEVER, TableRow

#: (DAG, run) -> error line of a failed run.
Errors = Mapping[tuple[str, str], str | None]
#: Tasks that move rows, and the states of one that has not started.
_MOVE = ("migrate", "roll_back", "repair", "adopt", "release")
_IDLE = {None, "scheduled", "queued", "skipped", "upstream_failed", "removed"}


@dataclass(frozen=True)
class Misplaced:
    """Tell that rows may stand where their table's epoch does not put them.

    Parameters
    ----------
    since : when the failed run ended, or when the check was made
    """

    table: str
    why: str
    since: datetime


def evidence(
    table: str, gates: Iterable[Page], rows: Iterable[RunRow], errors: Errors
) -> list[Misplaced]:
    """Return what says that rows of the table may be misplaced, the oldest first.

    While a run moves rows, or moved some and goes on, rows may be anywhere, so nothing counts.

    Parameters
    ----------
    gates : newest validation of each suite
    rows : newest runs of the table
    errors : their error lines
    """
    rows = [*rows]
    if any(map(_moving, rows)):
        return []
    why = "the newest failed run found rows that its epoch does not put there"
    checks = [gate for gate in gates if gate.suite == "after"]
    found = [
        Misplaced(table, why, r.ended or r.started or NEVER)
        for r in suspect_runs(rows, checks)
        if f"{REPAIR}{table}" in (errors.get((r.dag, r.run)) or "")
    ]
    why = "the tables did not pass their newest check"
    found += [Misplaced(table, why, gate.when) for gate in checks if not gate.passed]
    return sorted(found, key=lambda m: m.since)


def _moving(run: RunRow) -> bool:
    """Return whether an active run may have moved rows: not one that only looks, or still waits."""
    active = run.goes_on and not run.dry and run.dag.startswith(MOVERS)
    return active and any(run.tasks.get(task) not in _IDLE for task in _MOVE)


def misplaced_tables(
    session: Session, rows: Iterable[TableRow], recent: Iterable[RunRow], errors: Errors
) -> dict[str, Misplaced]:
    """Return table -> what says that its rows may be misplaced.

    Parameters
    ----------
    rows : figures of the tables
    recent : newest runs of all of them
    """
    runs: dict[str, list[RunRow]] = {}
    for run in recent:
        runs.setdefault(run.table, []).append(run)
    each = (evidence(r.name, r.gates, runs.get(r.name, ()), errors) for r in rows)
    return misplaced(session, chain.from_iterable(each))


def suspect_runs(rows: Iterable[RunRow], gates: Iterable[Page]) -> list[RunRow]:
    """Return the failed runs whose errors may still tell of misplaced rows.

    A run that moved all back is none of them, nor one before the newest check that passed.
    """
    passed = max((g.when for g in gates if g.suite == "after" and g.passed), default=NEVER)
    return [
        r
        for r in rows
        if r.state == "failed"
        and r.dag.startswith(MOVERS)
        and r.tasks.get("roll_back") != "success"
        and (r.ended or r.started or NEVER) > passed
    ]


def misplaced(session: Session, found: Iterable[Misplaced]) -> dict[str, Misplaced]:
    """Return table -> the oldest evidence that is newer than its last recovery."""
    found = [*found]
    recovered = _recovered(session, {m.table for m in found})
    held: dict[str, Misplaced] = {}
    for one in found:
        if one.since > recovered.get(one.table, NEVER):
            held.setdefault(one.table, one)
    return held


def _recovered(session: Session, tables: Iterable[str]) -> dict[str, datetime]:
    """Return table -> end of its last repair or rollback that succeeded and was no dry run.

    A rollback is a run of the roll-back DAG, or the task of a failed run that moves all back.
    """
    whole = {f"{kind}{table}": table for table in tables for kind in (REPAIR, ROLL_BACK)}
    undone = {f"{k}{table}": table for table in tables for k in PAGED}
    if not whole:
        return {}
    runs = select(DagRun.dag_id, func.max(DagRun.end_date)).where(
        DagRun.dag_id.in_(whole), DagRun.state == "success", ~dry_run()
    )
    tasks = select(TaskInstance.dag_id, func.max(TaskInstance.end_date)).where(
        TaskInstance.dag_id.in_(undone),
        TaskInstance.task_id == "roll_back",
        TaskInstance.state == "success",
    )
    ends = [*session.execute(runs.group_by(DagRun.dag_id))]
    ends += session.execute(tasks.group_by(TaskInstance.dag_id))
    last: dict[str, datetime] = {}
    for dag, end in ends:
        table = whole.get(dag) or undone[dag]
        last[table] = max(end or NEVER, last.get(table, NEVER))
    return last
