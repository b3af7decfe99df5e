"""One table: its channels, its epochs, its keys."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from evenkeel.charts import NARROW, WIDE
from evenkeel.data_docs import pages
from evenkeel.epoch_chart import epochs_svg
from evenkeel.history import Past, Stay, owner_names, past, stays
from evenkeel.report import pictures
from evenkeel.standing import Standing, run_names, standing
from partitioning.errors import EvenkeelError
from partitioning.function import PartitioningFunction
from partitioning.hashing import Hashes, key_hash, slot_of
from partitioning.keys import key_columns
from plugins.access import ReadableTable
from plugins.web import page, sort

#: Rows of a table at first sight, and all that one page shows; epochs that are read for it.
FIRST, MOST, EPOCHS = 50, 10_000, 12
router = APIRouter(prefix="/tables", tags=["pages"])


@dataclass(frozen=True)
class HeavyKey:
    """A key that the profile lists."""

    name: str
    channel: str
    load: float
    share: float
    bytes: float
    placed: bool
    stays: list[Stay]


@router.get("/{table}", response_class=HTMLResponse)
def table_page(
    request: Request, found: ReadableTable, key: str = "", every: bool = False
) -> HTMLResponse:
    """Load per channel, epochs over time, what balance costs, heavy keys, search of a key."""
    now = standing(found)
    registry = found.registry
    epochs = past(registry, None if every else EPOCHS)
    channels = sort(request, _channels(now), CHANNELS, "-share", "channels")
    keys = sort(request, _heavy(now, epochs), KEYS, "-load", "keys")
    return page(
        request,
        "table.html.j2",
        table=found.spec.table,
        spec=found.spec,
        now=now,
        problems=[*now.problems, *(e.problem for e in epochs if e.problem)],
        pictures=pictures(now.plan) if now.plan else None,
        channels=channels[: MOST if every else FIRST],
        channels_count=len(channels),
        epochs=epochs,
        epochs_picture=_picture(epochs),
        epochs_count=len(registry.numbers()) if now.epoch else 0,
        keys=keys[: MOST if every else FIRST],
        keys_count=len(keys),
        key=key,
        answer=_search(now, epochs, key) if key and now.epoch else None,
        runs=run_names(registry)[:10],
        validations=_count(registry),
    )


CHANNELS = {
    name: partial(lambda row, name: row[name], name=name)
    for name in ("number", "share", "load", "capacity", "slots", "keys")
}
KEYS = {
    "name": lambda row: row.name,
    "channel": lambda row: row.channel,
    "load": lambda row: row.load,
    "bytes": lambda row: row.bytes,
    "since": lambda row: row.stays[0].epoch if row.stays else -1,
}


def _channels(now: Standing) -> list[dict[str, Any]]:
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


def _heavy(now: Standing, epochs: list[Past]) -> list[HeavyKey]:
    """The profile's keys with most load, as many as one page shows."""
    if now.epoch is None or now.learned is None:
        return []
    profile, function = now.learned.profile, now.epoch.function
    order = np.argsort(-profile.heavy_load, kind="stable")[:MOST]
    hashes = profile.heavy[order]
    owners = owner_names(function, hashes)
    placed = np.isin(hashes, _named(function)).tolist()
    total = float(profile.load.sum()) or 1.0
    return [
        HeavyKey(
            name=profile.heavy_names[k],
            channel=owner,
            load=float(profile.heavy_load[k]),
            share=float(profile.heavy_load[k]) / total,
            bytes=float(profile.heavy_bytes[k]),
            placed=by_name,
            stays=lived,
        )
        for k, owner, by_name, lived in zip(
            order.tolist(), owners, placed, stays(epochs, hashes), strict=True
        )
    ]


def _search(now: Standing, epochs: list[Past], key: str) -> dict[str, Any]:
    """Where a key lives, since when and why; what is wrong with it where it cannot be one."""
    assert now.epoch is not None
    function = now.epoch.function
    types = [c.type for c in function.key]
    try:
        hashes = key_hash(key_columns([key], types), types)
    except EvenkeelError as error:
        return {"problem": error.what}
    lived = stays(epochs, hashes)[0]
    known = None
    if now.learned is not None:
        at = np.flatnonzero(now.learned.profile.heavy == hashes[0])
        known = float(now.learned.profile.heavy_load[at[0]]) if len(at) else None
    return {
        "problem": None,
        "channel": owner_names(function, hashes)[0],
        "slot": int(slot_of(hashes, len(function.slots))[0]),
        "placed": bool(np.isin(hashes, _named(function))[0]),
        "load": known,
        "stays": lived,
    }


def _named(function: PartitioningFunction) -> Hashes:
    """The keys that are placed by name, whole or split."""
    return np.concatenate([function.explicit_keys, function.split.keys])


def _picture(epochs: list[Past]) -> dict[str, Markup] | None:
    plans = [e.plan for e in reversed(epochs) if e.plan is not None]
    if len(plans) < 2:
        return None
    sizes = (("wide", WIDE), ("narrow", NARROW))
    return {size: Markup(epochs_svg(plans, width=width)) for size, width in sizes}


def _count(registry: Any) -> int:
    try:
        return len(pages(registry.store))
    except EvenkeelError:
        return 0
