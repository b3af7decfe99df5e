"""Removal of old files, so that a registry stops growing. The job maintain calls it.

`prune_docs` of the gates removes the pages of runs that are gone.

Epochs stay for ever, with their plans: they are small, and a table may go back to any of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import PurePosixPath

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.run_files import SKETCHES, SPEC_CHANNELS, WINDOWS, RunFiles
from evenkeel.registry.profiles import run_names
from evenkeel.registry.store import Store
from evenkeel.registry.verdict import ROLL_BACK, has_started, newest_attempt, read_rolled_back
from partitioning.errors import DamagedError, EvenkeelError
from partitioning.planning.plan import Plan

#: Runs that stay however old they are: status pages and forecasts of time ask the newest ones.
NEWEST_RUNS = 20


def prune(registry: Registry, since: datetime, days: int) -> dict[str, int]:
    """Remove files of the registry that are older than a moment; return how many of each kind.

    A run stays while its plan starts from the current epoch: it may still move state, and
    `repair` reads its plan. A run that a person or a gate refused, a dry run, or one that is rolled
    back, has ended: it goes. A file that is removed half-way is removed by the next call.

    Parameters
    ----------
    since : nothing that was written from then on is removed
    days : days of events, before the newest, whose sketches and window records stay. Sketches that
        another spec has made count by the newest of all. The first window's record stays, too

    Raises
    ------
    StoreError : the store cannot be reached
    """
    store, gone = registry.store, Counter[str]()
    if not registry.numbers():
        return {}
    current, newest = registry.current(), set(run_names(registry)[:NEWEST_RUNS])
    for name in store.unchanged("runs", since):
        if name not in newest and not may_move(registry, name, current.number):
            remove_run(registry, name)
            gone["runs"] += 1
    for number in registry.numbers()[:-1]:
        kept = registry.archive(number)
        # One that was killed may have removed the profile alone.
        if kept.profile.exists() or kept.report.exists():
            # The largest files, and those that are drawn from them.
            heavy = {file.name for file in (kept.profile, kept.learned, kept.report)}
            gone["files of epochs"] += prune_files(store, f"epochs/{number:08d}", since, heavy)
    gone["lists of channels"] = _prune_lists(registry, since, current.plan_digest)
    # The first one stays: a state table that is empty again begins there.
    first = registry.files.window_ends()[:1]
    gone["windows"] = _prune_days(store, [WINDOWS], since, days, first)
    sketches = [f"{SKETCHES}/{made}" for made in registry.files.sketch_folders()]
    gone["sketches"] = _prune_days(store, sketches, since, days)
    return {kind: count for kind, count in gone.items() if count}


def remove_run(registry: Registry, name: str) -> None:
    """Remove the folder of a run that has ended.

    Killed half-way, it leaves no run that seems to have rows half moved: the record of what it has
    begun goes before the mark that it is rolled back.
    """
    run = registry.run(name)
    run.plan.remove()
    run.migration.remove()
    registry.store.remove_folder(f"runs/{name}")


def may_move(registry: Registry, name: str, current: int) -> bool:
    """Return whether a run may still move state.

    It has a plan from the current epoch that was not refused, withdrawn, rolled back to the end, or
    made by a dry run. A plan that nobody can read is carried out by no job. If it has begun,
    `repair` brings back what has moved of it, and needs the run to know whose rows these are.

    Parameters
    ----------
    name : of the run
    current : number of the current epoch
    """
    run = registry.run(name)
    try:
        plan = readable_plan(run)
        if plan is None:
            return _left_half_moved(run, current)
        if plan.parent_epoch < current:
            return False
        if has_started(run, plan.digest):
            newest = newest_attempt(run, plan.digest)
            return not (newest.verdict == ROLL_BACK and newest.ended)
        return not (run.withdrawn(plan.digest).exists() or _refused(run, plan.digest))
    except EvenkeelError:
        return True


def _refused(run: RunFiles, digest: str) -> bool:
    """Return whether a plan that has moved nothing was only asked for, or was refused."""
    gate, asked, answer = run.gate_plan.find(), run.params.find(), run.approval.find()
    return (
        (gate is not None and not gate.success)
        or (asked is not None and asked.dry_run)
        or (answer is not None and answer.refuses(digest))
    )


def _left_half_moved(run: RunFiles, current: int) -> bool:
    """Return whether a run without a readable plan has begun to move rows, and has not ended."""
    record = run.migration.find()
    if record is None or record.epoch <= current:
        return False
    mark = read_rolled_back(run, record.digest)
    return mark is None or not mark.done


def readable_plan(run: RunFiles) -> Plan | None:
    """Return the plan of a run; None: it has none, or one that is torn."""
    with suppress(DamagedError):
        return run.plan.find()
    return None


def _prune_lists(registry: Registry, since: datetime, current: str | None) -> int:
    """Remove the spec's lists of channels that no plan goes by any more; return how many.

    A plan of a run that stays may be approved yet: its epoch goes by the list of when it was made.
    """
    old = {PurePosixPath(n).stem: n for n in registry.store.unchanged(SPEC_CHANNELS, since)}
    old.pop(current or "", None)
    for name in registry.store.names("runs") if old else ():
        if (plan := readable_plan(registry.run(name))) is not None:
            old.pop(plan.digest, None)
    return prune_files(registry.store, SPEC_CHANNELS, since, set(old.values()))


def _prune_days(
    store: Store,
    folders: Collection[str],
    since: datetime,
    days: int,
    kept: Collection[date] = (),
) -> int:
    """Remove files named by a day that is so many days before the newest; return how many.

    Parameters
    ----------
    kept : days whose files stay
    """
    found = {
        folder: {name: day for name in store.names(folder) if (day := _day(name)) is not None}
        for folder in folders
    }
    known = [day for dated in found.values() for day in dated.values()]
    if not known:
        return 0
    first = max(known) - timedelta(days=days)
    return sum(
        prune_files(
            store, folder, since, {n for n, day in dated.items() if day < first and day not in kept}
        )
        for folder, dated in found.items()
    )


def prune_files(store: Store, folder: str, since: datetime, names: Collection[str]) -> int:
    """Remove those of a folder's files that are older than a moment; return how many.

    Parameters
    ----------
    names : files that may go
    """
    old = [name for name in store.unchanged(folder, since) if name in names] if names else []
    for name in old:
        store.remove(f"{folder}/{name}")
    return len(old)


def _day(name: str) -> date | None:
    try:
        return date.fromisoformat(name.rpartition(".")[0])
    except ValueError:
        return None
