"""Say where keys of a table live, since when and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenkeel.inspect.key_history import Past, Stay, owner_names, stays
from evenkeel.inspect.status import TableStatus
from partitioning.errors import EvenkeelError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes, key_hash, slot_of
from partitioning.function.key_text import key_columns
from partitioning.workload.profile import Profile


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


#: Column -> sort key.
KEYS = {
    "name": lambda row: row.name,
    "channel": lambda row: row.channel,
    "load": lambda row: row.load,
    "bytes": lambda row: row.bytes,
    "since": lambda row: row.stays[0].epoch if row.stays else -1,
}


def known_name(profile: Profile, at: int) -> str | None:
    """Return how a person writes a key of a profile; None: it is known by its hash alone.

    Such a key has a channel of its own in the function, and was light in the window.
    """
    name = profile.heavy_names[at]
    return None if not profile.heavy_load[at] and name == str(int(profile.heavy[at])) else name


def listed_keys(now: TableStatus, epochs: list[Past], most: int) -> list[HeavyKey]:
    """Return the profile's keys with the most load, at most `most`, and every split key."""
    if now.epoch is None:
        return []
    profile, function = now.learned and now.learned.profile, now.epoch.function
    hashes, told = function.split.keys, {}
    if profile is not None:
        order = np.argsort(-profile.heavy_load, kind="stable")
        told = dict(zip(profile.heavy[order].tolist(), order.tolist(), strict=True))
        listed = profile.heavy[order[:most]]
        hashes = np.concatenate([listed, np.setdiff1d(hashes, listed)])
    total = 1.0 if profile is None else float(profile.load.sum()) or 1.0
    lives = stays(now.table.registry, epochs, hashes)
    owners, placed = owner_names(function, hashes), _placed(function, hashes)
    found = []
    for item, owner, how, lived in zip(hashes.tolist(), owners, placed, lives, strict=True):
        name, load, size = f"hash {item}", None, None
        if profile is not None and item in told:
            at = told[item]
            size = float(profile.heavy_bytes[at])
            if (known := known_name(profile, at)) is not None:
                name, load = known, float(profile.heavy_load[at])
        share = None if load is None else load / total
        found.append(HeavyKey(name, owner, load, share, size, how, lived))
    return found


def search(now: TableStatus, epochs: list[Past], key: str) -> dict[str, Any]:
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
        "slot": int(slot_of(hashes, function.row_slots)[0]),
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
