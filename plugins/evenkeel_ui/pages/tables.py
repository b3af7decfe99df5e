"""Show one table: its channels, epochs, keys and runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup
from sqlalchemy.orm import Session

from evenkeel.inspect.epoch_charts import epochs_svg, planned_svg
from evenkeel.inspect.key_history import Past, Stay, owner_names, past, stays
from evenkeel.inspect.load_history import past_windows
from evenkeel.inspect.status import TableStatus, table_status
from evenkeel.quality.data_docs import pages
from evenkeel.registry.epochs import Registry
from evenkeel.registry.profiles import run_names
from evenkeel.render.charts import NARROW, WIDE
from evenkeel.runs.report import floor_note, pictures
from evenkeel_ui.access import (
    REBALANCE,
    DagAccessEntity,
    ReadableTable,
    User,
    form_token,
    may,
)
from evenkeel_ui.airflow_runs import runs, stuck, triage
from evenkeel_ui.airflow_runs.task_error import error_line
from evenkeel_ui.pages.channel import drawn
from evenkeel_ui.web import page, sort
from partitioning.errors import EvenkeelError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes, key_hash, slot_of
from partitioning.function.key_text import key_columns
from partitioning.planning.plan import plan_for

#: Rows of channels and of keys shown at first, most rows of a page, and most epochs that it reads.
CHANNELS_AT_FIRST, KEYS_AT_FIRST, MOST_LISTED, EPOCHS_READ = 50, 10, 10_000, 12
#: Most logs of failed runs that one page reads.
LOGS_READ = 3
router = APIRouter(prefix="/tables", tags=["pages"])


@dataclass(frozen=True)
class HeavyKey:
    """A key that the profile lists, or that is split; None if the profile does not list it."""

    name: str
    channel: str
    load: float | None
    share: float | None
    bytes: float | None
    placed: str
    stays: list[Stay]


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
    registry = found.registry
    # The history of a key that the user searched for needs all epochs. For the listed keys the
    # newest epochs are enough: an older start shows as "or earlier".
    count = None if every else EPOCHS_READ
    known = past(registry, None if key else count, plans=count)
    epochs = known[:count] if before is None else past(registry, count, before=before)
    channels = sort(request, _channels(now), CHANNELS, "-share", "channels")
    keys = sort(request, _heavy(now, known), KEYS, "-load", "keys")
    problems: list[str] = []
    windows = past_windows(registry, problems)
    rows = triage.recent(session, user, [found.spec.table])
    listed = {name for row in rows for name in row.names}
    errors = _errors(session, user, registry, rows)
    return page(
        request,
        "table.html.j2",
        stuck=stuck.stuck_table(session, user, found, now.half),
        csrf=form_token(user),
        rows=rows,
        errors=errors,
        misplaced=stuck.misplaced(now, rows, errors.values()),
        may_repair=stuck.may_repair(user, found.spec.table),
        table=found.spec.table,
        spec=found.spec,
        floor_note=floor_note(now.floor, found.spec.split is not None),
        now=now,
        problems=list(
            dict.fromkeys([*now.problems, *(e.problem for e in known if e.problem), *problems])
        ),
        pictures=_pictures(now, request.url.path),
        windows=sort(request, windows, WINDOW_COLUMNS, "-window", "past"),
        windows_picture=drawn(
            windows, [w.imbalance for w in windows], "Imbalance over windows", found.spec.trigger
        ),
        channels=channels[: MOST_LISTED if every else CHANNELS_AT_FIRST],
        channels_count=len(channels),
        epochs=sort(request, epochs, EPOCHS_BY, "-number", "epochs"),
        epochs_pictures=_past_pictures(epochs),
        epochs_count=len(registry.numbers()) if now.epoch else 0,
        before=before,
        older=epochs[-1].number if epochs and epochs[-1].number > 0 else None,
        may_start=may(user, "POST", f"{REBALANCE}{found.spec.table}", DagAccessEntity.RUN),
        today=date.today().isoformat(),
        keys=keys[: MOST_LISTED if every else KEYS_AT_FIRST],
        keys_count=len(keys),
        key=key,
        answer=_search(now, known, key) if key and now.epoch else None,
        runs=[
            name
            for name in runs.visible(session, user, found, run_names(registry))
            if name not in listed
        ][:10],
        source=runs.source(session, user, found, now.learned),
        under_way=runs.runs_under_way(session, user, found.spec.table),
        validations=_count(registry),
    )


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
KEYS = {
    "name": lambda row: row.name,
    "channel": lambda row: row.channel,
    "load": lambda row: row.load,
    "bytes": lambda row: row.bytes,
    "since": lambda row: row.stays[0].epoch if row.stays else -1,
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


def _heavy(now: TableStatus, epochs: list[Past]) -> list[HeavyKey]:
    """Return the profile's keys with the most load, at most `MOST_LISTED`, and every split key."""
    if now.epoch is None:
        return []
    profile, function = now.learned and now.learned.profile, now.epoch.function
    hashes, told = function.split.keys, {}
    if profile is not None:
        order = np.argsort(-profile.heavy_load, kind="stable")
        told = dict(zip(profile.heavy[order].tolist(), order.tolist(), strict=True))
        listed = profile.heavy[order[:MOST_LISTED]]
        hashes = np.concatenate([listed, np.setdiff1d(hashes, listed)])
    total = 1.0 if profile is None else float(profile.load.sum()) or 1.0
    lives = stays(now.table.registry, epochs, hashes)
    owners, placed = owner_names(function, hashes), _placed(function, hashes)
    found = []
    for item, owner, how, lived in zip(hashes.tolist(), owners, placed, lives, strict=True):
        name, load, size = f"hash {item}", None, None
        if profile is not None and item in told:
            at = told[item]
            name = profile.heavy_names[at]
            load, size = float(profile.heavy_load[at]), float(profile.heavy_bytes[at])
        share = None if load is None else load / total
        found.append(HeavyKey(name, owner, load, share, size, how, lived))
    return found


def _search(now: TableStatus, epochs: list[Past], key: str) -> dict[str, Any]:
    """Return where a key lives, since when and why, or why the text cannot be a key."""
    assert now.epoch is not None
    function = now.epoch.function
    types = [c.type for c in function.key]
    try:
        hashes = key_hash(key_columns([key], types), types)
    except EvenkeelError as error:
        return {"problem": error.what}
    lived = stays(now.table.registry, epochs, hashes)[0]
    known = None
    if now.learned is not None:
        at = np.flatnonzero(now.learned.profile.heavy == hashes[0])
        known = float(now.learned.profile.heavy_load[at[0]]) if len(at) else None
    return {
        "problem": None,
        "channel": owner_names(function, hashes)[0],
        "slot": int(slot_of(hashes, len(function.slots))[0]),
        "placed": _placed(function, hashes)[0],
        "load": known,
        # With spaces around it, it is another key, but looks the same on a page.
        "spaced": key != key.strip() and any(t == "string" for t in types),
        "stays": lived,
    }


def _placed(function: PartitioningFunction, hashes: Hashes) -> list[str]:
    """Return how each key is placed: "split", "pinned", or "" if it goes with its slot."""
    named = np.where(np.isin(hashes, function.explicit_keys), "pinned", "")
    return np.where(function.split.find(hashes) >= 0, "split", named).tolist()


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
