"""Forgetting: after it no file of the registry names the key, and everything else still reads."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenkeel.inspect.past_plan import past_plan
from evenkeel.inspect.status import table_status
from evenkeel.registry.files.migration_records import MigrationRecord
from evenkeel.registry.files.outcome_records import JobError
from evenkeel.registry.files.records import Manifest, WatchDecision
from evenkeel.registry.files.run_files import EpochFiles
from evenkeel.registry.forgetting import check_at_rest, forget_names, texts_of
from evenkeel.registry.profiles import newest_profile
from evenkeel.registry.store import Store
from evenkeel.registry.verdict import (
    PUBLISH,
    ROLL_BACK,
    Attempt,
    begin_attempt,
    mark,
    newest_attempt,
    settle,
    withdraw,
)
from evenkeel.table import Table
from evenkeel.watch import state_file
from evenkeel.watch.state import WatchState
from partitioning.errors import DamagedError, FenceError
from partitioning.function.hashing import Hashes
from partitioning.planning.decide import Decision
from partitioning.strategies.skew import Threshold
from partitioning.watch.controller import Controller


class Stop(BaseException):
    """The abrupt end of a process."""


def naming(table: Table, name: str) -> set[str]:
    """Return the files that hold a key's name."""
    root, word = Path(table.registry.url), re.compile(rf"\b{re.escape(name)}\b")
    found = set()
    for file in root.rglob("*"):
        if file.suffix == ".npz":
            with np.load(file) as arrays:
                text = " ".join(arrays["heavy_names"].tolist())
        else:
            text = file.read_text() if file.is_file() else ""
        if word.search(text):
            found.add(str(file.relative_to(root)))
    return found


@pytest.fixture
def waiting(old: Table) -> Table:
    """The old registry; the plan of its fourth run is not carried out yet."""
    old.registry.run("fourth").migration.remove()
    return old


def moved_key(table: Table) -> tuple[str, Hashes]:
    """Return the name and hash of a key that the current epoch's plan moved."""
    plan = table.registry.archive(table.registry.current().number).plan.read()
    return next((m.name, np.array([m.item])) for m in plan.moves if m.kind == "key")


def before_each(patch: pytest.MonkeyPatch, method: str, what: Callable[[], None]) -> None:
    """Do something before each call of a method of the store."""
    real: Callable[..., Any] = getattr(Store, method)

    def call(self: Store, *args: Any) -> Any:
        what()
        return real(self, *args)

    patch.setattr(Store, method, call)


def an_error(message: str) -> JobError:
    return JobError(
        kind="InputError", exit_code=2, retry=False, message=message, job="x", attempt=None, time=""
    )


def watched(table: Table, name: str, key: Hashes) -> None:
    """Leave what the watch writes of a decision that moves no row: in files that are kept, too."""
    said = f"the watch, batch 3: {name} is shared by channel 1, 2"
    weights = {int(key[0]): {1: 1.0, 2: 1.0}}
    for folder in (table.registry.archive(2), table.registry.run("fourth")):
        if isinstance(folder, EpochFiles):
            folder.forget_digests("decision.json", "watched.json")
        folder.watch_decision.write(WatchDecision(number=3, weights=weights, reason=said))
        folder.decision.write(Decision(True, said, 2.0, 1.0, 1.0, 0.0, None, None))
    kept = table.registry.archive(2)
    sums = {n: hashlib.sha256(kept.read(n)).hexdigest() for n in ("decision.json", "watched.json")}
    kept.manifest.write(Manifest(sha256=sums))
    controller = Controller(Threshold.of(1.0), 3)
    channels = len(table.registry.current().function.channels)
    state = WatchState("s", 3, controller, np.zeros(channels), None, f"not now: {said}")
    state_file.write(table.registry, state)


def read_all(table: Table) -> None:
    """Read what pages and jobs read."""
    table_status(table)
    for number in table.registry.numbers():
        past_plan(table.registry, table.registry.epoch(number))
    newest_profile(table.registry)


def test_no_file_names_the_key_and_the_rest_reads_as_before(waiting: Table) -> None:
    name, key = moved_key(waiting)
    waiting.registry.archive(2).write("report.html", f"<td>{name}</td>".encode())
    # Errors name a key in the words of Spark.
    for error in (
        waiting.registry.files.error("apply_window"),
        waiting.registry.run("light").error,
    ):
        error.write(an_error(f"key dest = '{name}': overflow"))
    watched(waiting, name, key)
    other = waiting.registry.files.error("maintain")
    other.write(an_error("the store does not answer"))
    kinds = {Path(f).name for f in naming(waiting, name)}
    assert {"plan.json", "profile.npz", "report.html"} <= kinds
    assert {"decision.json", "watched.json", "watch.json"} <= kinds
    before = {n: waiting.registry.archive(n).profile.find() for n in waiting.registry.numbers()}
    epochs = {f: f.read_bytes() for f in Path(waiting.registry.url).rglob("epoch.json")}
    (third,) = [n for n in newest_profile(waiting.registry).profile.heavy_names if n != name][:1]

    gone = forget_names(waiting.registry, key, [name])
    assert naming(waiting, name) == set() and other.exists() and gone["errors"] == 2
    assert gone["withdrawn plans"] >= 1 and gone["files of epochs"] >= 3 and gone["sketches"] >= 1
    read_all(waiting)
    assert state_file.read(waiting.registry) is not None
    assert waiting.registry.archive(2).watch_decision.exists()
    assert epochs == {file: file.read_bytes() for file in epochs}
    profiles = {number: profile for number, profile in before.items() if profile is not None}
    assert len(profiles) >= 2
    for number, profile in profiles.items():
        left = waiting.registry.archive(number).profile.read()
        assert (left.load == profile.load).all() and (left.bytes == profile.bytes).all()
        assert left.error >= profile.heavy_load[profile.heavy == key].max(initial=0.0)
    assert naming(waiting, third)
    assert forget_names(waiting.registry, key, [name]) == {}


@pytest.mark.parametrize(
    "value", ["JFK", 'O\'Hare "X"', "back\\slash", "two  blanks", "a\tb", date(2013, 1, 8), b"\xff"]
)
def test_errors_that_write_the_key_as_a_literal_go(waiting: Table, value: object) -> None:
    error = waiting.registry.files.error("migrate")
    error.write(an_error(" ".join(f"key dest = {value!r}: a column overflows".split())))
    none = np.array([1])
    assert forget_names(waiting.registry, none, texts_of(["other", None])) == {}
    assert forget_names(waiting.registry, none, texts_of([value])) == {"errors": 1}


def test_a_waiting_plan_is_withdrawn(waiting: Table) -> None:
    name, key = moved_key(waiting)
    run = waiting.registry.run("fourth")
    digest = run.plan.read().digest
    forget_names(waiting.registry, key, [name])
    assert newest_attempt(run, digest) == Attempt(1, ROLL_BACK, ended=True, withdrawn=True)
    assert not run.plan.exists()


def test_a_call_that_is_killed_as_it_removes_a_plan_goes_on(
    waiting: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan names the key in the sentence of the watch alone: no row of the key moves."""
    name, key = moved_key(waiting)
    run, real = waiting.registry.run("fourth"), Store.remove
    watched(waiting, name, key)
    reason = run.watch_decision.read().reason
    plan = run.plan.read()
    slot = replace(plan.moves[0], kind="slot", item=0, name="slot 0", reason=reason)
    run.plan.write(replace(plan, moves=(slot,)))
    assert f"runs/fourth/{run.plan.name}" in naming(waiting, name)

    def stop(self: Store, file: str) -> None:
        if file == f"runs/fourth/{run.plan.name}":
            raise Stop
        real(self, file)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "remove", stop)
        with pytest.raises(Stop):
            forget_names(waiting.registry, key, [name])
    forget_names(waiting.registry, key, [name])
    assert naming(waiting, name) == set() and not run.plan.exists()


def test_a_plan_that_was_rolled_back_is_withdrawn_for_good(waiting: Table) -> None:
    run = waiting.registry.run("fourth")
    digest = run.plan.read().digest
    settle(run, digest, 1, ROLL_BACK)
    mark(run, digest, 1, done=True)
    assert not newest_attempt(run, digest).withdrawn
    assert withdraw(run, digest) and withdraw(run, digest)
    assert newest_attempt(run, digest).withdrawn


def test_an_attempt_that_begins_meanwhile_is_seen(
    waiting: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = waiting.registry.run("fourth")
    digest = run.plan.read().digest
    settle(run, digest, 1, ROLL_BACK)
    mark(run, digest, 1, done=True)

    def begin() -> None:
        monkeypatch.undo()
        assert begin_attempt(run, digest, 2)

    before_each(monkeypatch, "create", begin)
    assert not withdraw(run, digest)
    assert newest_attempt(run, digest) == Attempt(2, None, ended=False, withdrawn=True)


@pytest.mark.parametrize("file", ["plan.json", "profile.npz"])
@pytest.mark.parametrize("begun", [False, True])
def test_a_torn_file_may_name_the_key_and_goes(waiting: Table, file: str, begun: bool) -> None:
    name, key = moved_key(waiting)
    run = waiting.registry.run("second" if file == "profile.npz" else "fourth")
    if begun:
        digest = run.plan.read().digest
        run.migration.write(MigrationRecord(digest=digest, epoch=2, tables={}))
    run.write(file, run.read(file)[:-40])
    check_at_rest(waiting.registry, key)
    forget_names(waiting.registry, key, [name])
    assert run.name not in waiting.registry.store.names("runs")
    # A torn sketch may name it, too. The error comes once all else is clean.
    files = waiting.registry.files
    made = files.sketch_folders()[0]
    torn = Path(files.sketch(made, files.sketched_days(made)[0]).path)
    torn.write_bytes(torn.read_bytes()[:-40])
    with pytest.raises(DamagedError, match="Delete it and learn again"):
        forget_names(waiting.registry, key, [name])
    torn.unlink()
    assert naming(waiting, name) == set()


@pytest.mark.parametrize("decided", [False, True])
def test_a_plan_that_moves_state_is_left_alone(waiting: Table, decided: bool) -> None:
    name, key = moved_key(waiting)
    run = waiting.registry.run("fourth")
    digest = run.plan.read().digest
    if decided:
        settle(run, digest, 1, PUBLISH)
    else:
        run.migration.write(MigrationRecord(digest=digest, epoch=3, tables={}))
        with pytest.raises(FenceError, match="begun to move state"):
            check_at_rest(waiting.registry, key)
    with pytest.raises(FenceError, match="begun to move state"):
        forget_names(waiting.registry, key, [name])
    assert run.plan.read().digest == digest and "runs/fourth/profile.npz" in naming(waiting, name)


def test_what_an_earlier_plan_of_the_run_moved_does_not_count(waiting: Table) -> None:
    name, key = moved_key(waiting)
    run = waiting.registry.run("fourth")
    run.migration.write(MigrationRecord(digest="0" * 64, epoch=3, tables={}))
    check_at_rest(waiting.registry, key)
    assert forget_names(waiting.registry, key, [name])["withdrawn plans"] >= 1


def test_a_process_that_is_stopped_anywhere_leaves_what_reads_and_goes_on(
    waiting: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, key = moved_key(waiting)
    watched(waiting, name, key)
    for at in range(100):
        done = 0

        def step(last: int = at) -> None:
            nonlocal done
            if done == last:
                raise Stop
            done += 1

        with monkeypatch.context() as patch:
            for method in ("write", "create", "remove", "remove_folder"):
                before_each(patch, method, step)
            try:
                forget_names(waiting.registry, key, [name])
                break
            except Stop:
                pass
        read_all(waiting)
    assert at > 3 and naming(waiting, name) == set()
