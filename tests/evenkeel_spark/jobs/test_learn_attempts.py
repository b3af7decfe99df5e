"""Two attempts of one run to learn: a killed task may leave a driver that goes on."""

from __future__ import annotations

import pytest

from evenkeel.runs.learning import check_newest, mark_learning
from evenkeel_spark.jobs import learn as job
from partitioning.errors import FenceError, InputError
from tests.conftest import World
from tests.support.raw_json import read_json, write_json

pytestmark = pytest.mark.spark


def test_an_attempt_that_ends_late_leaves_the_newer_profile(
    spark, ready: World, monkeypatch, capsys
):
    arguments = ["--spec", ready.spec_path, "--run", "r", "--end"]
    run, learn = ready.table.registry.run("r"), job.learn

    def overtaken(*args):
        found = learn(*args)
        monkeypatch.setattr(job, "learn", learn)
        # The retry learns a window of its own, and ends first.
        assert job.main([*arguments, "2013-01-09"]) == 0
        return found

    monkeypatch.setattr(job, "learn", overtaken)
    assert job.main([*arguments, "2013-01-08"]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("evenkeel: error: "), error
    assert "another attempt to learn has begun in this run" in error
    assert run.profile.read().window == ("2013-01-02", "2013-01-09")
    assert run.learned.exists()
    assert run.learning.exists(), "the mark of the newer attempt stays for the watch"


def test_an_attempt_that_fails_removes_its_own_mark_alone(spark, ready: World, monkeypatch):
    table = ready.table
    run = table.registry.run("r")

    def fail(newer: bool):
        def learn(*args):
            if newer:
                mark_learning(run, table.epoch())
            raise InputError("the disk is full", fix="Free some")

        return learn

    arguments = ["--spec", ready.spec_path, "--run", "r"]
    for newer in (True, False):
        monkeypatch.setattr(job, "learn", fail(newer))
        assert job.main(arguments) != 0
        assert run.learning.exists() is newer


def test_a_mark_of_an_earlier_release_is_of_another_attempt(ready: World):
    run = ready.table.registry.run("r")
    mark = mark_learning(run, ready.table.epoch())
    said = read_json(run, "learning.json")
    assert len(said["attempt"]) == 32
    check_newest(run, mark)
    del said["attempt"]
    write_json(run, "learning.json", said)
    with pytest.raises(FenceError, match="another attempt to learn has begun"):
        check_newest(run, mark)
