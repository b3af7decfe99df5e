"""Loads of past windows: each on the function that was current when its profile was learned."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from threading import Lock

from cachetools import LRUCache, cached

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.run_files import KeptFiles
from evenkeel.registry.profiles import run_names
from partitioning.errors import EvenkeelError
from partitioning.workload.metrics import channel_loads, imbalance
from partitioning.workload.profile import Profile

#: Windows of a page, and newest runs to search for their profiles. More of them cost reads.
MOST, LOOKED_AT = 24, 60
#: Past windows cached in a process: some kilobytes each with a thousand channels.
KEPT = 512


@dataclass(frozen=True)
class PastWindow:
    """The load of a window.

    Parameters
    ----------
    start, end : first day, and the day after the last, as ISO dates
    epoch : number of the epoch that was current when the window was learned
    imbalance : of that epoch's function on this window, 1 is perfect
    names : of that epoch's channels, (N,)
    shares : load of each channel over its fair share, (N,)
    """

    start: str
    end: str
    epoch: int
    imbalance: float
    names: tuple[str, ...]
    shares: tuple[float, ...]

    def share(self, channel: str) -> float | None:
        """Return the load of the channel of that name over its fair share; None: it was none."""
        return self.shares[self.names.index(channel)] if channel in self.names else None


@dataclass(frozen=True)
class ChannelSeconds:
    """What the task of one channel took to fold a window: its rows, and seconds."""

    window: str
    rows: int
    seconds: float


def past_windows(registry: Registry, problems: list[str]) -> list[PastWindow]:
    """List the newest windows that runs have learned, the oldest first; dry runs count as well.

    If several runs have learned a window, the newest counts. A damaged file becomes a line in
    `problems`.
    """
    found: dict[str, PastWindow] = {}
    folders: list[KeptFiles] = [registry.run(name) for name in run_names(registry)[:LOOKED_AT]]
    folders += [registry.archive(n) for n in reversed(registry.numbers()[-MOST:])]
    for folder in folders:
        if len(found) == MOST:
            break
        if not folder.profile.exists() or not folder.learned.exists():
            continue
        if folder.watch_decision.exists():
            continue
        try:
            window = _window(registry, folder)
        except EvenkeelError as error:
            problems.append(str(error))
            continue
        if window.end:
            found.setdefault(window.end, window)
    return [found[end] for end in sorted(found)]


def channel_seconds(registry: Registry, channel: int) -> list[ChannelSeconds]:
    """Return what the channel of that number took for the newest windows, the oldest first.

    Raises
    ------
    DamagedError : a file of a window is torn
    """
    return [
        ChannelSeconds(str(end), work.rows, work.seconds)
        for end in registry.files.window_ends()[-MOST:]
        for work in registry.files.window(end).read().channels
        if work.channel == channel
    ]


def _window(registry: Registry, folder: KeptFiles) -> PastWindow:
    file = folder.profile
    data, where = folder.read(file.name), file.path
    number = folder.learned.read().epoch
    return _loads(hashlib.sha256(data).hexdigest(), registry, number, data, where)


@cached(
    LRUCache(KEPT),
    key=lambda digest, registry, number, data, where: (digest, registry.url, number),
    lock=Lock(),
)
def _loads(digest: str, registry: Registry, number: int, data: bytes, where: str) -> PastWindow:
    """Compute the loads of a profile; the bytes of both files never change under one key."""
    function, profile = registry.epoch(number).function, Profile.from_bytes(data, where)
    loads, own = channel_loads(function, profile), function.capacities
    fair = own / own.sum() * (float(loads.sum()) or 1.0)
    shares = [
        float(x / f) if f > 0 else (float("inf") if x else 0.0)
        for x, f in zip(loads, fair, strict=True)
    ]
    start, end = profile.window
    names = tuple(c.name for c in function.channels)
    return PastWindow(start, end, number, imbalance(loads, own), names, tuple(shares))
