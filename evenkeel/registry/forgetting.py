"""Removal of the names of keys from the registry, for people who ask that their data be deleted.

Sketches and profiles stay, and no longer list the keys: their load stays with their slots. Plans
and reports that name a key go as whole files. The functions of epochs hold no names: they know a
key by its hash, and keep that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

import numpy as np

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.run_files import SKETCHES, EpochFiles, KeptFiles, RunFiles
from evenkeel.registry.pruning import may_move, readable_plan
from evenkeel.registry.verdict import has_started, withdraw
from partitioning.errors import DamagedError, FenceError
from partitioning.function.hashing import Hashes
from partitioning.workload.profile import sketch_from_bytes, sketch_to_bytes


def check_at_rest(registry: Registry, keys: Hashes) -> None:
    """Refuse keys that the plan of a run names which may move state by now.

    Parameters
    ----------
    keys : int64 (n,), hashes

    Raises
    ------
    FenceError : names the run
    """
    current = registry.current().number
    for run in _naming(registry, keys):
        plan = readable_plan(run)
        if plan and may_move(registry, run.name, current) and has_started(run, plan.digest):
            raise _moving(run)


def forget_names(registry: Registry, keys: Hashes, texts: Collection[str]) -> dict[str, int]:
    """Remove the names of keys from all files; return how many files or folders of each kind.

    A run whose plan is not carried out yet is withdrawn, as if it were rolled back. A run with a
    file that is torn goes. Another call goes on where one was killed.

    Parameters
    ----------
    keys : int64 (n,), hashes
    texts : what an error may write of the keys; errors with one of these in their text go

    Raises
    ------
    FenceError : a run has begun to move state meanwhile
    DamagedError : a file of an epoch is torn, so nobody knows which keys it names
    """
    gone = Counter[str]()
    gone["sketches"] = _forget_in_sketches(registry, keys)
    current = registry.current().number
    for run in list(_naming(registry, keys)):
        plan = readable_plan(run)
        if plan is not None and plan.parent_epoch >= current:
            _withdraw(run, plan.digest)
            gone["withdrawn plans"] += 1
        else:
            registry.store.remove_folder(f"runs/{run.name}")
            gone["runs"] += 1
    gone["errors"] = _forget_errors(registry, texts)
    for number in registry.numbers():
        gone["files of epochs"] += _forget_in_epoch(registry.archive(number), keys)
    return {kind: count for kind, count in gone.items() if count}


def _naming(registry: Registry, keys: Hashes) -> Iterator[RunFiles]:
    """Yield the runs that name one of the keys, or may do so in a file that is torn."""
    for name in registry.store.names("runs"):
        run = registry.run(name)
        try:
            names = _profile_lists(run, keys) or _plan_names(run, keys)
        except DamagedError:
            names = True
        if names:
            yield run


def _profile_lists(folder: KeptFiles, keys: Hashes) -> bool:
    profile = folder.profile.find()
    return profile is not None and bool(np.isin(profile.heavy, keys).any())


def _plan_names(folder: KeptFiles, keys: Hashes) -> bool:
    plan, wanted = folder.plan.find(), set(keys.tolist())
    return plan is not None and any(m.kind != "slot" and m.item in wanted for m in plan.moves)


def _withdraw(run: RunFiles, digest: str) -> None:
    """Take back a plan that may still be carried out, and remove the files that name its keys."""
    if not withdraw(run, digest):
        raise _moving(run)
    # The plan goes last: by it a second call knows that the run may not be removed as a whole.
    for file in (run.report, run.profile, run.learned, run.plan):
        file.remove()


def _forget_in_epoch(kept: EpochFiles, keys: Hashes) -> int:
    """Remove the names from an epoch's files; return how many files were changed or removed."""
    changed = 0
    if _plan_names(kept, keys):
        kept.forget_digests(kept.plan.name)
        kept.report.remove()
        kept.plan.remove()
        changed += 2
    if _profile_lists(kept, keys):
        kept.forget_digests(kept.profile.name)
        kept.report.remove()
        kept.profile.write(kept.profile.read().without(keys))
        changed += 1
    return changed


def _forget_in_sketches(registry: Registry, keys: Hashes) -> int:
    store, changed = registry.store, 0
    for made in store.names(SKETCHES):
        for day in store.names(f"{SKETCHES}/{made}"):
            name = f"{SKETCHES}/{made}/{day}"
            sketch = sketch_from_bytes(store.read(name), store.path(name))
            if np.isin(sketch.heavy, keys).any():
                store.write(name, sketch_to_bytes(sketch.without(keys)))
                changed += 1
    return changed


def _forget_errors(registry: Registry, texts: Collection[str]) -> int:
    """Remove the newest errors of jobs that may name a key; return how many."""
    errors = [registry.files.error(job) for job in registry.files.failed_jobs()]
    errors += [registry.run(name).error for name in registry.store.names("runs")]
    naming = [e for e in errors if (left := e.find()) and any(t in left.message for t in texts)]
    for error in naming:
        error.remove()
    return len(naming)


def _moving(run: RunFiles) -> FenceError:
    return FenceError(
        "its plan names a key to forget, and it has begun to move state",
        run.url,
        "Let it end, or roll it back; then forget again",
    )
