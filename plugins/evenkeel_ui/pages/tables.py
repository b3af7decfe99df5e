"""Show one table: its channels, epochs, keys and runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np
from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup
from sqlalchemy.orm import Session

from evenkeel.inspect.epoch_charts import epochs_svg, planned_svg
from evenkeel.inspect.key_history import Past, past
from evenkeel.inspect.load_history import past_windows
from evenkeel.inspect.status import TableStatus, table_status
from evenkeel.quality.data_docs import pages
from evenkeel.registry.epochs import Registry
from evenkeel.registry.profiles import run_names
from evenkeel.render.charts import NARROW, WIDE
from evenkeel.runs.report import floor_note, pictures
from evenkeel.table import Table
from evenkeel_ui.access import (
    REBALANCE,
    DagAccessEntity,
    ReadableTable,
    User,
    form_token,
    may,
    nameable,
)
from evenkeel_ui.airflow_runs import misplaced, runs, stuck, triage
from evenkeel_ui.airflow_runs.task_error import error_line, why_no_error
from evenkeel_ui.pages.channel import drawn
from evenkeel_ui.pages.keys import KEYS, listed_keys, search
from evenkeel_ui.web import page, sort
from partitioning.errors import EvenkeelError
from partitioning.planning.plan import plan_for

#: Rows of channels and of keys shown at first, most rows of a page, and most epochs that it reads.
CHANNELS_AT_FIRST, KEYS_AT_FIRST, MAX_LISTED, EPOCHS_READ = 50, 10, 10_000, 12
#: Most logs of failed runs that one page reads.
LOGS_READ = 3
#: Most runs to list that left a folder, and that Airflow does not list.
OTHER_RUNS = 10
router = APIRouter(prefix="/tables", tags=["pages"])


class Part(NamedTuple):
    """Inputs of each part of the page: who asks, and for which table."""

    request: Request
    user: User
    session: Session
    found: Table
    now: TableStatus


@router.get("/{table}", response_class=HTMLResponse)
def table_page(
    request: Request,
    found: ReadableTable,
    user: User,
    session: SessionDep,
    key: str = "",
    every: bool = False,
    before: int | None = None,
) -> HTMLResponse:
    """Show loads, epochs, imbalance against bytes moved, heavy keys, and where a key lives."""
    now = table_status(found)
    part = Part(request, user, session, found, now)
    # The history of a key that the user searched for needs all epochs. For the listed keys the
    # newest epochs are enough: an older start shows as "or earlier".
    count = None if every else EPOCHS_READ
    known = past(found.registry, None if key else count, plans=count)
    epochs = known[:count] if before is None else past(found.registry, count, before=before)
    problems = [*now.problems, *(e.problem for e in known if e.problem)]
    # Windows that cannot be read add to the problems.
    shown = {**_runs(part), **_load(part, problems, every), **_epochs(part, epochs)}
    return page(
        request,
        "table.html.j2",
        table=found.spec.table,
        spec=found.spec,
        now=now,
        csrf=form_token(user),
        may_start=may(user, "POST", f"{REBALANCE}{found.spec.table}", DagAccessEntity.RUN),
        today=datetime.now(UTC).date().isoformat(),
        problems=list(dict.fromkeys(problems)),
        before=before,
        key=key,
        answer=search(now, known, key) if key and now.epoch else None,
        **shown,
        **_keys(part, known, every),
    )


def _runs(part: Part) -> dict[str, Any]:
    """Return what the page shows of runs: those of Airflow, what failed, what is half moved."""
    session, user, found, now = part.session, part.user, part.found, part.now
    table, registry = found.spec.table, found.registry
    rows = triage.recent(session, user, [table])
    listed = {name for row in rows for name in row.names}
    errors = _errors(session, user, registry, rows)
    told = misplaced.evidence(table, now.gates, rows, errors)
    others = [n for n in runs.visible(session, user, found, run_names(registry)) if n not in listed]
    return {
        "stuck": stuck.stuck_table(session, user, found, now.half),
        "misplaced": misplaced.misplaced(session, told).get(table),
        "may_repair": stuck.may_repair(user, table),
        "named": nameable(user, table, (g.run for g in now.gates if not g.passed)),
        "scheduler": stuck.scheduler_alive(session),
        "rows": rows,
        "errors": errors,
        "no_error": why_no_error(user, rows, errors),
        "runs": others[:OTHER_RUNS],
        "under_way": runs.runs_under_way(session, user, table),
        "validations": _count(registry),
    }


def _load(part: Part, problems: list[str], every: bool) -> dict[str, Any]:
    """Return what the page shows of load: of each channel, and by window."""
    now, spec, request = part.now, part.found.spec, part.request
    windows = past_windows(part.found.registry, problems)
    channels = sort(request, _channels(now), CHANNELS, "-share", "channels")
    by_window = [w.imbalance for w in windows]
    return {
        "source": runs.source(part.session, part.user, part.found, now.learned),
        "floor_note": floor_note(now.floor, spec.split is not None),
        "pictures": _pictures(now, request.url.path),
        "windows": sort(request, windows, WINDOW_COLUMNS, "-window", "past"),
        "windows_picture": drawn(windows, by_window, "Imbalance over windows", spec.trigger),
        "channels": channels[: MAX_LISTED if every else CHANNELS_AT_FIRST],
        "channels_count": len(channels),
    }


def _epochs(part: Part, epochs: list[Past]) -> dict[str, Any]:
    """Return what the page shows of these epochs."""
    numbers = part.found.registry.numbers() if part.now.epoch else []
    return {
        "newest": numbers[-1] if numbers else None,
        "epochs": sort(part.request, epochs, EPOCHS_BY, "-number", "epochs"),
        "epochs_pictures": _past_pictures(epochs),
        "epochs_count": len(numbers),
        "older": epochs[-1].number if epochs and epochs[-1].number > 0 else None,
    }


def _keys(part: Part, known: list[Past], every: bool) -> dict[str, Any]:
    """Return what the page shows of heavy keys; `known`: the epochs that say since when."""
    keys = sort(part.request, listed_keys(part.now, known, MAX_LISTED), KEYS, "-load", "keys")
    return {"keys": keys[: MAX_LISTED if every else KEYS_AT_FIRST], "keys_count": len(keys)}


def _errors(
    session: Session, user: User, registry: Registry, rows: list[triage.RunRow]
) -> dict[tuple[str, str], str | None]:
    """Return (DAG, run) -> error line of the newest runs that have one; logs can be slow."""
    failed = [r for r in rows if r.error_task is not None][:LOGS_READ]
    return {
        (r.dag, r.run): error_line(session, user, registry, r.dag, r.run, r.error_task)
        for r in failed
    }


CHANNELS = {
    name: itemgetter(name) for name in ("number", "share", "load", "capacity", "slots", "keys")
}
WINDOW_COLUMNS = {
    "window": attrgetter("end"),
    "imbalance": attrgetter("imbalance"),
    "epoch": attrgetter("epoch"),
}
EPOCHS_BY: dict[str, Callable[[Past], Any]] = {
    "number": lambda row: row.number,
    "published": lambda row: row.epoch and row.epoch.published,
    "strategy": lambda row: row.epoch and row.epoch.function.strategy,
    "channels": lambda row: row.epoch and len(row.epoch.function.channels),
    "hashing": lambda row: row.plan and row.plan.imbalance_hashing,
    "before": lambda row: row.plan and row.plan.imbalance_before,
    "after": lambda row: row.plan and row.plan.imbalance_after,
    "floor": lambda row: row.plan and row.plan.floor,
    "moved": lambda row: row.plan and row.plan.bytes,
    "moves": lambda row: row.plan and row.plan.moves,
}


def _channels(now: TableStatus) -> list[dict[str, Any]]:
    if now.epoch is None:
        return []
    function = now.epoch.function
    count = len(function.channels)
    slots = np.bincount(function.slots, minlength=count)
    keys = np.bincount(function.explicit_channels, minlength=count)
    return [
        {
            "number": i,
            "name": c.name,
            "capacity": c.capacity,
            "load": None if now.loads is None else float(now.loads[i]),
            "share": None if now.shares is None else now.shares[i],
            "slots": int(slots[i]),
            "keys": int(keys[i]),
        }
        for i, c in enumerate(function.channels)
    ]


def _pictures(now: TableStatus, home: str) -> dict[str, dict[str, Markup]] | None:
    """Draw the last rebalance; if there was none, the current epoch on the newest profile.

    Each bar is a link to the page of its channel.
    """
    count = len(now.epoch.function.channels) if now.epoch else 0
    links = [f"{home}/channels/{number}" for number in range(count)]
    if now.plan is not None:
        return pictures(now.plan, links)
    if now.epoch is None or now.learned is None:
        return None
    function = now.epoch.function
    plan = plan_for(now.table.spec.table, now.learned.profile, function, function)
    return pictures(plan, links)


def _past_pictures(epochs: list[Past]) -> list[tuple[str, dict[str, Markup]]]:
    plans = [e.plan for e in reversed(epochs) if e.plan is not None]
    if not plans:
        return []
    drawn = (
        ("Imbalance of each epoch", epochs_svg),
        ("State that the plan of each epoch moves", planned_svg),
    )
    sizes = (("wide", WIDE), ("narrow", NARROW))
    return [
        (told, {size: Markup(draw(plans, width=width)) for size, width in sizes})
        for told, draw in drawn
    ]


def _count(registry: Any) -> int:
    try:
        return len(pages(registry.store))
    except EvenkeelError:
        return 0
