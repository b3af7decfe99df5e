"""Show one channel: what it carries, its load over windows, what came and went, its seconds."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from evenkeel.inspect.epoch_diff import compare
from evenkeel.inspect.load_charts import windows_svg
from evenkeel.inspect.load_history import PastWindow, channel_seconds, past_windows
from evenkeel.inspect.status import TableStatus, table_status
from evenkeel.render.charts import NARROW, WIDE
from evenkeel_ui.access import ReadableTable
from evenkeel_ui.pages.keys import known_name
from evenkeel_ui.web import page, sort
from partitioning.errors import EvenkeelError
from partitioning.workload.metrics import fit_slots

#: Rows of each table at first, most rows of a page, and newest epochs whose moves are listed.
ROWS_AT_FIRST, MAX_CHANNEL_ROWS, EPOCHS_LISTED = 20, 10_000, 6
router = APIRouter(prefix="/tables/{table}", tags=["pages"])
PARTS = {n: itemgetter(n) for n in ("name", "kind", "load", "bytes")}
#: Columns of past windows, each with the load of one channel; and of the seconds of that channel.
CHANNEL_WINDOW_COLUMNS: dict[str, Callable[[tuple[PastWindow, float | None]], Any]] = {
    "window": lambda row: row[0].end,
    "share": lambda row: row[1],
    "imbalance": lambda row: row[0].imbalance,
    "epoch": lambda row: row[0].epoch,
}
TASK_COLUMNS = {n: attrgetter(n) for n in ("window", "rows", "seconds")}
MOVE_COLUMNS = {n: itemgetter(n) for n in ("epoch", "way", "name", "other", "load", "bytes")}


@router.get("/channels/{number}", response_class=HTMLResponse)
def channel_page(
    request: Request, found: ReadableTable, number: int, every: bool = False
) -> HTMLResponse:
    """Show a channel's keys and slots by load, its load over windows, moves and seconds."""
    now = table_status(found)
    channels = now.epoch.function.channels if now.epoch else ()
    if not 0 <= number < len(channels):
        span = f"0 to {len(channels) - 1}" if channels else "none yet"
        raise HTTPException(404, f"There is no channel {number} of {found.spec.table}: {span}.")
    problems = [*now.problems]
    name, most = channels[number].name, MAX_CHANNEL_ROWS if every else ROWS_AT_FIRST
    parts = sort(request, _parts(now, number), PARTS, "-load", "parts")
    moves = sort(request, _moves(now, number, problems), MOVE_COLUMNS, "-epoch", "moves")
    windows = past_windows(found.registry, problems)
    try:
        seconds = channel_seconds(found.registry, number)
    except EvenkeelError as error:
        seconds = []
        problems.append(str(error))
    shares = [w.share(name) for w in windows]
    return page(
        request,
        "channel.html.j2",
        table=found.spec.table,
        spec=found.spec,
        now=now,
        number=number,
        channel=name,
        share=now.shares[number] if now.shares else None,
        load=float(now.loads[number]) if now.loads is not None else None,
        capacity=channels[number].capacity,
        count=len(channels),
        parts=parts[:most],
        parts_count=len(parts),
        moves=moves[:most],
        moves_count=len(moves),
        windows=sort(
            request, zip(windows, shares, strict=True), CHANNEL_WINDOW_COLUMNS, "-window", "windows"
        ),
        picture=drawn(windows, shares, f"Load of channel {name} over windows"),
        seconds=sort(request, seconds, TASK_COLUMNS, "-window", "seconds"),
        epochs=EPOCHS_LISTED,
        problems=list(dict.fromkeys(problems)),
    )


def drawn(
    windows: list[PastWindow],
    values: list[float | None],
    label: str,
    trigger: float | None = None,
) -> dict[str, Markup] | None:
    """Draw a value over windows, `wide` and `narrow`; None: there is no window with a value."""
    if not any(v is not None for v in values):
        return None
    sizes = (("wide", WIDE), ("narrow", NARROW))
    return {
        size: Markup(windows_svg(windows, values, label, trigger, width=width))
        for size, width in sizes
    }


def _parts(now: TableStatus, number: int) -> list[dict[str, Any]]:
    """Return the heavy keys and slots of a channel; a slot without its keys that are listed."""
    if now.epoch is None:
        return []
    function = now.epoch.function
    own = np.flatnonzero(function.slots == number)
    if now.learned is None:
        return [
            {"name": f"slot {s}", "kind": "slot", "load": None, "bytes": None, "key": False}
            for s in own.tolist()
        ]
    profile = now.learned.profile
    slot_load, slot_bytes = (
        fit_slots(profile.tail(values, heavy), len(function.slots))
        for values, heavy in (
            (profile.load, profile.heavy_load),
            (profile.bytes, profile.heavy_bytes),
        )
    )
    found: list[dict[str, Any]] = [
        {
            "name": f"slot {s}",
            "kind": "slot",
            "load": float(slot_load[s]),
            "bytes": float(slot_bytes[s]),
            "key": False,
        }
        for s in own.tolist()
    ]
    split = function.split.find(profile.heavy)
    owner = function.lookup_hashes(profile.heavy)
    item, channels, weights = function.split.owners(split[split >= 0])
    shared = np.flatnonzero(split >= 0)[item]
    part = np.where((owner == number) & (split < 0), 1.0, 0.0)
    np.add.at(part, shared, np.where(channels == number, weights, 0.0))
    pinned = np.isin(profile.heavy, function.explicit_keys)
    for i in np.flatnonzero(part > 0).tolist():
        name = known_name(profile, i)
        kind = "split key" if split[i] >= 0 else "pinned key" if pinned[i] else "key, by its slot"
        found.append(
            {
                "name": f"hash {profile.heavy[i]}" if name is None else name,
                "kind": f"{kind} ({part[i]:.0%})" if split[i] >= 0 else kind,
                "load": float(profile.heavy_load[i] * part[i]),
                "bytes": float(profile.heavy_bytes[i] * part[i]),
                "key": name is not None,
            }
        )
    return found


def _moves(now: TableStatus, number: int, problems: list[str]) -> list[dict[str, Any]]:
    """Return what came to the channel and what left it, in the newest epochs."""
    if now.epoch is None:
        return []
    registry, profile = now.table.registry, now.learned and now.learned.profile
    found = []
    for epoch in range(max(1, now.epoch.number - EPOCHS_LISTED + 1), now.epoch.number + 1):
        try:
            between = compare(registry, epoch - 1, epoch, profile)
        except EvenkeelError as error:
            problems.append(str(error))
            continue
        problems += between.problems
        longer = max(between.old.function.channels, between.new.function.channels, key=len)
        for move in between.moves:
            if number not in (move.source, move.target):
                continue
            comes = move.target == number
            found.append(
                {
                    "epoch": epoch,
                    "way": "in" if comes else "out",
                    "name": move.name,
                    "other": longer[move.source if comes else move.target].name,
                    "load": move.load if between.weighed else None,
                    "bytes": move.bytes if between.weighed else None,
                    "reason": move.reason,
                }
            )
    return found
