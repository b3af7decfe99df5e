"""A spec that goes from fold to merges: refused in one line, or counted once."""

from __future__ import annotations

import pytest

from evenkeel_spark.jobs import apply_window as job
from evenkeel_spark.jobs.bootstrap import bootstrap
from tests.conftest import SPEC, World
from tests.support.worlds.windows import (
    WHENS,
    day,
    hooked,
    owners,
    put,
    rows,
    split,
    turned,
    versions,
)

pytestmark = pytest.mark.spark


@pytest.mark.slow
@pytest.mark.parametrize("when", WHENS)
@pytest.mark.parametrize("after", [0, 1], ids=["first table", "second table"])
def test_a_migration_from_fold_to_merge_is_one_line(
    spark, world: World, capsys, monkeypatch, after: int, when: str
):
    world.with_seen()
    bootstrap(spark, world.table, day(8))
    events = world.events
    new = events["at"].between("2013-01-08", "2013-01-09") & (events.index % 9 == 0)
    events.loc[new, "dest"] = [f"NEW{i}" for i in range(new.sum())]
    world.write_events(events)
    with monkeypatch.context() as patch:
        # By another session: this one writes under the transaction id of the window.
        hooked(patch, when, after, lambda: turned(spark.newSession(), world))
        arguments = ["--spec", world.spec_path, "--start", "2013-01-08", "--end", "2013-01-10"]
        assert job.main([*arguments, "--attempt", "first"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert {
        WHENS[0]: "has the constraint evenkeel_epoch_1 by now, expected that of epoch 0 alone",
        WHENS[1]: "epoch 0 was replaced meanwhile: evenkeel_epoch_1 refuses what it routed",
    }[when] in line
    assert line.endswith("Run it again: it goes by the current epoch, and counts nothing twice")
    # Airflow does so.
    assert world.table.registry.files.error("apply_window").read().retry
    assert not (world.folder / "registry/windows").exists()
    assert job.main(arguments) == 0
    totals, until = rows(spark, world, "totals"), events[events["at"] < "2013-01-10"]
    assert totals["trips"].to_dict() == until.groupby("dest").size().to_dict()
    for name in ("totals", "seen"):
        found = rows(spark, world, name)
        assert (found["channel"] == world.table.epoch().lookup(found.index)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "after", "new"),
    [
        (WHENS[0], 0, "D001"),
        (WHENS[1], 0, "D001"),
        (WHENS[0], 1, "D001"),
        (WHENS[1], 1, "D001"),
        (WHENS[1], 1, None),
    ],
    ids=["partials", "partials after the check", "copies", "copies after", "an owner after"],
)
def test_what_is_split_from_fold_to_merge_is_counted_once_and_copied_to_all(
    spark, world: World, capsys, monkeypatch, when: str, after: int, new: str | None
):
    """The constraint admits a split key's row on any owner, whoever wrote it."""
    events = world.events
    events["city"] = ("City of " + events["dest"]).where(events["at"] >= "2013-01-08", None)
    dims = {"path": "state/dims", "columns": {"city": {"merge": "copy", "of": "city"}}}
    world.write_events(events)
    world.respec(state={**SPEC["state"], "dims": dims}, split={"by": "miles"})
    bootstrap(spark, world.table, day(8))
    split(spark, world, {"D000": 2})
    path = world.table.spec.state["totals"].path
    left = {}

    def theirs() -> None:
        other = spark.newSession()
        split(other, world, {"D000": 3} | ({new: 2} if new else {}))
        if new:
            put(other, path, new, owners(world, new, 2)[1:], trips=1000)
        left.update(versions(other, world))

    with monkeypatch.context() as patch:
        hooked(patch, when, after, theirs)
        arguments = ["--spec", world.spec_path, "--start", "2013-01-08", "--end", "2013-01-10"]
        assert job.main(arguments) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "evenkeel_epoch_2" in line and line.endswith("and counts nothing twice")
    assert versions(spark, world) == left
    assert job.main(arguments) == 0
    whole = world.table.state("totals", spark=spark).toPandas().set_index("dest")["trips"]
    counts = events[events["at"] < "2013-01-10"].groupby("dest").size()
    assert whole.to_dict() == (counts + 1000 * (counts.index == new)).to_dict()
    cities = rows(spark, world, "dims").loc["D000"].set_index("channel")["city"].to_dict()
    assert cities == dict.fromkeys(owners(world, "D000", 3), "City of D000")
