"""Turns in a Spark that stays up, without a Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from evenkeel import shared_spark
from evenkeel.doctor import Status, packages
from evenkeel.shared_spark import Address, SharedSpark, end_turn
from partitioning.errors import InputError, SetupError, UnreachableError

HERE = Address(os.getpid(), 1, "secret", "versions")


@pytest.fixture
def shared(tmp_path: Path) -> SharedSpark:
    return SharedSpark(tmp_path / "spark")


def begun(shared: SharedSpark) -> None:
    shared.begin(HERE)


def test_a_folder_has_one_program_that_keeps_it(
    shared: SharedSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_spark, "_END_SECONDS", 0.2)
    with shared.claim():
        with pytest.raises(InputError, match="stays up here already"):
            shared.claim()
        begun(shared)
        assert shared.find() == HERE
    shared.withdraw()
    shared.claim().close()


@pytest.mark.parametrize("text", ["", "[]", '{"server": 1}', '{"new": 1}'])
def test_an_address_that_nobody_can_read_is_none(shared: SharedSpark, text: str) -> None:
    """A host that crashed leaves an empty file, and another release other fields."""
    shared.folder.mkdir()
    (shared.folder / "address.json").write_text(text)
    assert shared.address() is None


def test_a_file_in_the_place_of_the_folder_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="expected a folder") as raised:
            SharedSpark(place).claim()
        assert str(raised.value).startswith(f"{place}: ")


def test_an_address_of_a_program_that_is_gone_is_none(shared: SharedSpark) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    with shared.claim():
        shared.begin(Address(process.pid, 1, "", ""))
    assert shared.address() is None
    with pytest.raises(UnreachableError, match="found none"):
        shared.find()


def test_a_process_id_that_another_has_by_now_keeps_no_folder(shared: SharedSpark) -> None:
    """In a container the program has the same process id after each start."""
    with shared.claim():
        begun(shared)
    assert shared.address() == HERE
    with shared.claim():
        assert shared.address() is None


def test_a_job_waits_for_a_program_that_starts(shared: SharedSpark) -> None:
    with shared.claim():
        threading.Timer(0.3, begun, [shared]).start()
        assert shared.find() == HERE


def test_a_job_waits_for_another_one_and_says_for_whom(shared: SharedSpark) -> None:
    with shared.claim():
        begun(shared)
        first, told = shared.turn("one", pytest.fail), list[str]()
        threading.Timer(0.3, end_turn, [first]).start()
        end_turn(shared.turn("two", told.append))
    assert told == [f"one (process {os.getpid()})"]


def test_no_job_has_a_turn_after_one_that_was_killed(shared: SharedSpark) -> None:
    with shared.claim():
        begun(shared)
        # Its lock is gone, and it has not said that it ended.
        shared.turn("killed", pytest.fail).close()
        began = time.monotonic()
        threading.Timer(0.4, begun, [shared]).start()
        end_turn(shared.turn("next", pytest.fail))
        assert time.monotonic() - began >= 0.4
        assert not shared.worn()


def test_a_jvm_is_worn_by_its_end_and_by_many_jobs(
    shared: SharedSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_spark, "JOBS_PER_JVM", 2)
    with shared.claim():
        begun(shared)
        for _ in range(2):
            assert not shared.worn()
            end_turn(shared.turn("job", pytest.fail))
        assert shared.worn()
        begun(shared)
        shared.wear()
        assert shared.worn()


def test_the_folder_of_another_user_is_named_and_not_waited_for(
    shared: SharedSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shared.claim():
        begun(shared)
        me, other = shared.folder.owner(), shared.folder.stat().st_uid + 4242
        monkeypatch.setattr(os, "getuid", lambda: other)
        said = rf"spark: expected a folder of user {other}, found one of {me}\. .* as one user"
        for use in (shared.find, lambda: shared.turn("job", pytest.fail), shared.claim):
            with pytest.raises(SetupError, match=said) as raised:
                use()
            assert "chmod" not in str(raised.value)
        monkeypatch.setenv("EVENKEEL_SPARK", str(shared.folder))
        (row,) = packages.own_driver()
        assert row.status is Status.wrong and f"found one of {me}" in row.found
        assert "as one user" in row.fix


def test_a_folder_that_others_may_enter_is_refused(shared: SharedSpark) -> None:
    shared.folder.mkdir(mode=0o755)
    with pytest.raises(InputError, match="other users may enter .* chmod 700"):
        shared.claim()
