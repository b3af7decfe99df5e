"""Removal of the names of keys from the registry, for people who ask that their data be deleted.

Sketches and profiles stay, and no longer list the keys: their load stays with their slots. Plans
and reports that name a key go as whole files. So do sentences of the watch. Functions of
epochs know a key by its hash, and keep that; and its text, where a spec pins or excludes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import numpy as np

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.records import WatchDecision
from evenkeel.registry.files.run_files import EpochFiles, KeptFiles, RunFiles
from evenkeel.registry.pruning import may_move, readable_plan, remove_run
from evenkeel.registry.verdict import has_started, withdraw
from partitioning.errors import DamagedError, FenceError
from partitioning.function.hashing import Hashes

#: Text in place of a sentence of the watch that named a key.
KEY_FORGOTTEN = "the watch: a key that this named was forgotten"


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
        plan, moves = readable_plan(run), may_move(registry, run.name, current)
        if moves and (plan is None or has_started(run, plan.digest)):
            raise _moving(run)


def texts_of(values: Iterable[object]) -> set[str]:
    """Return what errors may write of values of keys: as they are, or as Python's literals."""
    known = [v for v in values if v is not None]
    literals = {repr(v)[1:-1] if isinstance(v, str) else repr(v) for v in known}
    return literals | {str(v) for v in known}


def forget_names(registry: Registry, keys: Hashes, texts: Collection[str]) -> dict[str, int]:
    """Remove the names of keys from all files; return how many files or folders of each kind.

    A run whose plan is not carried out yet is withdrawn, as if it were rolled back. A run with a
    file that is torn goes, unless it has left rows half moved. Another call goes on where one was
    killed.

    Parameters
    ----------
    keys : int64 (n,), hashes
    texts : what an error may write of the keys; errors with one of these in their text go

    Raises
    ------
    FenceError : a run has begun to move state meanwhile
    DamagedError : a file of an epoch or of the watch is torn, so nobody knows which keys it names.
        Or a sketch is: all else is cleaned by then
    """
    gone = Counter[str]()
    gone["sketches"], torn = forget_in_sketches(registry, keys)
    current = registry.current().number
    for run in list(_naming(registry, keys)):
        plan = readable_plan(run)
        if plan is not None and plan.parent_epoch >= current:
            _withdraw(run, plan.digest)
            gone["withdrawn plans"] += 1
        elif plan is None and may_move(registry, run.name, current):
            raise _moving(run)
        else:
            remove_run(registry, run.name)
            gone["runs"] += 1
    gone["errors"] = _forget_errors(registry, texts)
    for name in registry.store.names("runs"):
        # Withdrawn runs stay, with the decision of the watch.
        gone["sentences of the watch"] += _forget_sentence(registry.run(name), keys)
    for number in registry.numbers():
        gone["files of epochs"] += _forget_in_epoch(registry.archive(number), keys)
    gone["sentences of the watch"] += _forget_newest_sentence(registry, keys, texts)
    if torn is not None:
        # Only now, so that it keeps no other name.
        raise torn
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
    plan, wanted, decided = folder.plan.find(), set(keys.tolist()), _decided(folder, keys)
    if plan is None:
        return False
    # The reason of the watch names keys of which no row may move.
    return decided is not None or any(m.kind != "slot" and m.item in wanted for m in plan.moves)


def _decided(folder: KeptFiles, keys: Hashes) -> WatchDecision | None:
    """Return the decision of the watch on one of the keys; None: there is none."""
    decided = folder.watch_decision.find()
    return None if decided is None or decided.weights.keys().isdisjoint(keys.tolist()) else decided


def _withdraw(run: RunFiles, digest: str) -> None:
    """Take back a plan that may still be carried out, and remove the files that name its keys."""
    if not withdraw(run, digest):
        raise _moving(run)
    # By the plan a second call knows that the run may not be removed as a whole. It finds a plan
    # of the watch by the decision, and alone with that it forgets the decision's sentence.
    named = (run.report, run.profile, run.learned, run.decision, run.plan, run.watch_decision)
    for file in named:
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
    return changed + _forget_sentence(kept, keys)


def _forget_sentence(folder: KeptFiles, keys: Hashes) -> int:
    """Replace the sentence in which the watch names one of the keys; return 1, or 0: it has not.

    The decision stays: without it the profile would pass for that of a window.
    """
    decided = _decided(folder, keys)
    if decided is None or decided.reason == KEY_FORGOTTEN:
        return 0
    if isinstance(folder, EpochFiles):
        folder.forget_digests(folder.watch_decision.name, folder.decision.name)
    if (weighed := folder.decision.find()) is not None:
        folder.decision.write(replace(weighed, reason=KEY_FORGOTTEN))
    folder.watch_decision.write(decided.model_copy(update={"reason": KEY_FORGOTTEN}))
    return 1


def _forget_newest_sentence(registry: Registry, keys: Hashes, texts: Collection[str]) -> int:
    """Replace the watch's newest sentence if it may name one of the keys; return 1, or 0."""
    file = registry.files.watch
    found = file.find()
    if found is None:
        return 0
    decided = found.decided is not None and not found.decided.weights.keys().isdisjoint(
        keys.tolist()
    )
    if found.outcome == KEY_FORGOTTEN or not (decided or any(t in found.outcome for t in texts)):
        return 0
    file.write(found.model_copy(update={"outcome": KEY_FORGOTTEN}))
    return 1


def forget_in_sketches(registry: Registry, keys: Hashes) -> tuple[int, DamagedError | None]:
    """Remove the names of keys from all sketches of days.

    Parameters
    ----------
    keys : int64 (n,), hashes

    Returns
    -------
    How many were changed, and the error of the first that is torn.
    """
    files, changed, torn = registry.files, 0, None
    for made in files.sketch_folders():
        for day in files.sketched_days(made):
            file = files.sketch(made, day)
            try:
                sketch = file.read()
            except DamagedError as error:
                torn = torn or error
                continue
            if np.isin(sketch.heavy, keys).any():
                file.write(sketch.without(keys))
                changed += 1
    return changed, torn


def _forget_errors(registry: Registry, texts: Collection[str]) -> int:
    """Remove the newest errors of jobs that may name a key; return how many."""
    errors = [registry.files.error(job) for job in registry.files.failed_jobs()]
    errors += [registry.run(name).error for name in registry.store.names("runs")]
    known = [" ".join(text.split()) for text in texts]
    naming = [
        error
        for error in errors
        if (left := error.find()) and any(t in " ".join(left.message.split()) for t in known)
    ]
    for error in naming:
        error.remove()
    return len(naming)


def _moving(run: RunFiles) -> FenceError:
    return FenceError(
        "its plan names a key to forget, and it has begun to move state",
        run.url,
        "Let it end, roll it back, or run repair; then forget again",
    )
