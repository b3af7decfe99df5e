"""Loads of past windows: each on the function that was current when its profile was learned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from threading import Lock

from cachetools import LRUCache, cached

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.run_files import KeptFiles
from evenkeel.registry.profiles import run_names
from partitioning.errors import EvenkeelError
from partitioning.workload.metrics import channel_loads, fair_shares, imbalance

#: Windows of a page, and newest runs to search for their profiles. More of them cost reads.
MAX_WINDOWS, LOOKED_AT = 24, 60
#: Past windows cached in a process: some kilobytes each with a thousand channels.
CACHED_WINDOWS = 512


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
    """Hold the rows that one channel's task folded in a window, and its seconds."""

    window: str
    rows: int
    seconds: float


def past_windows(registry: Registry, problems: list[str]) -> list[PastWindow]:
    """List the newest windows that runs have learned, the oldest first; dry runs count as well.

    If several runs have learned a window, the newest counts. A damaged file becomes a line in
    `problems`.
    """
    found = islice(_newest_first(registry, problems), MAX_WINDOWS)
    return sorted(found, key=lambda window: window.end)


def over_since(registry: Registry, limit: float) -> str | None:
    """Return the end of the first window since which every one was over a limit, as text.

    None: the newest window was not, or no run has learned one. Windows count on the epoch that was
    current then. This reads no more of them than it needs, and at most `MAX_WINDOWS`. If it stops
    before it has found an even one, the text ends in "or earlier".
    """
    since: str | None = None
    for count, window in enumerate(_newest_first(registry, [])):
        if window.imbalance <= limit:
            return since
        if count == MAX_WINDOWS:
            return f"{since} or earlier"
        since = window.end
    more = len(run_names(registry)) > LOOKED_AT or len(registry.numbers()) > MAX_WINDOWS
    return f"{since} or earlier" if since and more else since


def _newest_first(registry: Registry, problems: list[str]) -> Iterator[PastWindow]:
    """Yield each window once, by the newest run that has learned it."""
    folders: list[KeptFiles] = [registry.run(name) for name in run_names(registry)[:LOOKED_AT]]
    folders += [registry.archive(n) for n in reversed(registry.numbers()[-MAX_WINDOWS:])]
    seen: set[str] = set()
    for folder in folders:
        try:
            window = _window(registry, folder)
        except EvenkeelError as error:
            problems.append(str(error))
            continue
        if window is not None and window.end and window.end not in seen:
            seen.add(window.end)
            yield window


def channel_seconds(registry: Registry, channel: int) -> list[ChannelSeconds]:
    """Return what the channel of that number took for the newest windows, the oldest first.

    Raises
    ------
    DamagedError : a file of a window is torn
    """
    return [
        ChannelSeconds(str(end), work.rows, work.seconds)
        for end in registry.files.window_ends()[-MAX_WINDOWS:]
        for work in registry.files.window(end).read().channels
        if work.channel == channel
    ]


def _window(registry: Registry, folder: KeptFiles) -> PastWindow | None:
    """Return the window that a folder has a profile of; None: it has none, or that of a watch.

    The folder is listed once. Its files are read only if this process does not know them yet.
    """
    files = folder.stamps()
    if folder.watch_decision.name in files:
        return None
    own = [files.get(file.name) for file in (folder.profile, folder.learned)]
    return None if None in own else _loads(tuple(own), registry, folder)


@cached(
    LRUCache(CACHED_WINDOWS),
    key=lambda stamps, registry, folder: (stamps, folder.url),
    lock=Lock(),
)
def _loads(stamps: object, registry: Registry, folder: KeptFiles) -> PastWindow:
    """Compute the loads of a profile on the epoch at which it was learned."""
    number = folder.learned.read().epoch
    function, profile = registry.epoch(number).function, folder.profile.read()
    loads, own = channel_loads(function, profile), function.capacities
    start, end = profile.window
    names = tuple(c.name for c in function.channels)
    shares = tuple(fair_shares(loads, own))
    return PastWindow(start, end, number, imbalance(loads, own), names, shares)
