"""Windows on Iceberg tables that others have changed, and what is not built for these."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, timedelta
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.iceberg import maintain
from evenkeel_spark.iceberg.maintain import steps as maintain_steps
from evenkeel_spark.iceberg.migrate import migrate
from evenkeel_spark.iceberg.verify import verify
from evenkeel_spark.jobs import adopt
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.tables.rows.placement_sql import misplaced_sql
from evenkeel_spark.windows.iceberg import merging, notes
from evenkeel_spark.windows.iceberg.notes import note_until, renew_note
from evenkeel_spark.windows.iceberg.snapshots import find_said, known_placed
from partitioning.errors import FenceError, InputError
from tests.conftest import World
from tests.support.iceberg.fed import NAMES, check, day, one
from tests.support.iceberg.tables import planned

pytestmark = pytest.mark.spark


def test_rolled_back_tables_get_the_window_again(lake: SparkSession, kept: World) -> None:
    before = one(lake, "totals").head()
    apply_window(lake, kept.table, day(8), day(10))
    one(lake, "totals").call("rollback_to_snapshot", {"snapshot_id": str(before)})
    with pytest.raises(InputError, match="not in totals"):
        apply_window(lake, kept.table, day(10), day(12))
    apply_window(lake, kept.table, day(8), day(10))
    check(lake, kept, day(10))


def test_a_table_that_is_empty_again_lacks_no_day_that_the_other_has(
    lake: SparkSession, fed: World
) -> None:
    bootstrap(lake, fed.table)
    before, table = one(lake, "seen").head(), fed.table
    apply_window(lake, table, day(1), day(10))
    apply_window(lake, table, day(10), day(12))
    one(lake, "seen").call("rollback_to_snapshot", {"snapshot_id": str(before)})
    table.registry.files.window(day(10)).remove()
    for allow_gap in (False, True):
        with pytest.raises(InputError, match="--start 2013-01-01 --end 2013-01-10"):
            apply_window(lake, table, day(10), day(12), allow_gap)
    apply_window(lake, table, day(1), day(10))
    apply_window(lake, table, day(10), day(12))
    check(lake, fed, day(12))


def test_rows_out_of_place_are_placed_first(lake: SparkSession, kept: World) -> None:
    lake.sql("UPDATE lake.db.totals SET channel = (channel + 1) % 4")
    apply_window(lake, kept.table, day(8), day(10))
    check(lake, kept, day(10))


def reads(lake: SparkSession, world: World, first: int, last: int) -> int:
    """Apply a window, and return how many tables were read for rows out of place."""
    found = []

    def sql(function):
        found.append(function.epoch)
        return misplaced_sql(function)

    with patch.object(merging, "misplaced_sql", sql):
        apply_window(lake, world.table, day(first), day(last))
    return len(found)


def test_the_state_is_read_once_if_its_snapshots_tell_where_rows_are(
    lake: SparkSession, kept: World
) -> None:
    assert reads(lake, kept, 8, 9) == 0
    table = one(lake, "totals")
    renew_note(kept.table, "totals", table, 1e10)
    table.call("rewrite_data_files", {"options": "map('rewrite-all', 'true')"})
    assert reads(lake, kept, 9, 10) == 0
    table.refresh()
    lake.sql("UPDATE lake.db.totals SET channel = (channel + 1) % 4")
    renew_note(kept.table, "totals", table, 1e10)
    # Nothing but a look tells. It finds them, places them, and looks again.
    assert reads(lake, kept, 10, 11) == 2
    assert reads(lake, kept, 11, 12) == 0
    check(lake, kept, day(12))


def test_rows_of_another_epoch_are_read_after_a_rollback(lake: SparkSession, kept: World) -> None:
    migration = planned(lake, kept, "r1", capacities=(1, 1, 1, 0.3))
    before = one(lake, "totals").head()
    migrate(lake, migration)
    verify(lake, migration)
    # The move says where it has put them.
    assert reads(lake, kept, 8, 9) == 0
    assert reads(lake, kept, 9, 10) == 0
    # Its own summary says that its rows are placed, by the epoch before.
    one(lake, "totals").call("rollback_to_snapshot", {"snapshot_id": str(before)})
    assert reads(lake, kept, 8, 9) == 2
    assert reads(lake, kept, 9, 10) == 0
    check(lake, kept, day(10))


def test_a_snapshot_by_another_function_or_that_is_gone_tells_nothing(
    lake: SparkSession, kept: World
) -> None:
    table, function = one(lake, "totals"), kept.table.epoch().function
    assert known_placed(table, table.head(), function)
    assert not known_placed(table, table.head(), replace(function, epoch=1))
    assert not known_placed(table, 1, function)


def test_a_key_with_two_rows_is_refused(lake: SparkSession, kept: World) -> None:
    key = kept.events["dest"].mode()[0]
    lake.table("lake.db.totals").where(f"dest = '{key}'").writeTo("lake.db.totals").append()
    before = one(lake, "totals").head()
    with pytest.raises(InputError, match="several of 1 keys"):
        apply_window(lake, kept.table, day(8), day(15))
    assert one(lake, "totals").refs() == {"main": before}


def test_a_table_that_would_write_whole_files_is_refused(lake: SparkSession, kept: World) -> None:
    table = one(lake, "totals")
    table.set_properties({"write.merge.mode": "copy-on-write"})
    with pytest.raises(InputError, match="SET TBLPROPERTIES"):
        apply_window(lake, kept.table, day(8), day(10))


def test_a_person_says_what_expired_snapshots_do_not(lake: SparkSession, kept: World) -> None:
    apply_window(lake, kept.table, day(8), day(10))
    lake.sql("DELETE FROM lake.db.totals WHERE dest = 'none'")
    lake.sql("UPDATE lake.db.totals SET trips = trips")
    for name in NAMES:
        expire = {"older_than": "TIMESTAMP '2100-01-01 00:00:00'", "retain_last": "1"}
        one(lake, name).call("expire_snapshots", expire)
    said = [find_said(table, table.head()) for table in (one(lake, name) for name in NAMES)]
    assert said[0] is None and said[1] is not None
    with pytest.raises(InputError, match="--holds-until DAY --of totals"):
        apply_window(lake, kept.table, day(10), day(12))
    note_until(lake, kept.table, day(10), ["totals"])
    apply_window(lake, kept.table, day(10), day(12))
    check(lake, kept, day(12))


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT OVERWRITE lake.db.totals SELECT * FROM lake.db.backup",
        "DELETE FROM lake.db.totals",
        "TRUNCATE TABLE lake.db.totals",
    ],
)
def test_a_person_says_what_a_table_holds_that_somebody_has_written_again(
    lake: SparkSession, kept: World, statement: str
) -> None:
    lake.sql("CREATE TABLE lake.db.backup USING iceberg AS SELECT * FROM lake.db.totals")
    apply_window(lake, kept.table, day(8), day(10))
    lake.sql(statement)
    with pytest.raises(InputError, match="--holds-until DAY --of totals"):
        apply_window(lake, kept.table, day(10), day(12))
    if "backup" in statement:
        note_until(lake, kept.table, day(8), ["totals"])
        apply_window(lake, kept.table, day(8), day(10))
        apply_window(lake, kept.table, day(10), day(12))
        check(lake, kept, day(12))


def test_each_advice_leads_on_after_one_table_was_written_again_and_another_rolled_back(
    lake: SparkSession, kept: World
) -> None:
    before = one(lake, "seen").head()
    lake.sql("CREATE TABLE lake.db.backup USING iceberg AS SELECT * FROM lake.db.totals")
    for first, last in ((8, 11), (11, 13)):
        apply_window(lake, kept.table, day(first), day(last))
    lake.sql("INSERT OVERWRITE lake.db.totals SELECT * FROM lake.db.backup")
    note_until(lake, kept.table, day(9), ["totals"])
    one(lake, "seen").call("rollback_to_snapshot", {"snapshot_id": str(before)})
    first, last, done = day(11), day(13), False
    for _ in range(8):
        try:
            done = bool(apply_window(lake, kept.table, first, last)) and last == day(13)
        except InputError as error:
            told = dict(re.findall(r"--(start|end) (\S+\d)", str(error)))
            first = date.fromisoformat(told["start"])
            last = date.fromisoformat(told.get("end", "2013-01-13"))
        else:
            first, last = last, day(13)
        if done:
            break
    assert done
    for name in NAMES:
        assert find_said(one(lake, name), one(lake, name).head()).until == day(13)


@pytest.mark.parametrize("busy", [False, True])
def test_maintain_notes_it_before_it_expires(
    lake: SparkSession, kept: World, monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    apply_window(lake, kept.table, day(8), day(10))
    table = one(lake, "totals")
    told, now = table.head(), find_said(table, table.head()).moment
    assert renew_note(kept.table, "totals", table, now).startswith("the snapshots tell")
    for _ in range(3):
        lake.createDataFrame([], lake.table(table.sql).schema).writeTo(table.sql).append()
    table.refresh()
    monkeypatch.setattr(maintain, "kept_for", lambda *_: timedelta(0))
    monkeypatch.setattr(notes, "is_due", lambda *_: True)
    if busy:
        # Others write during each try to note it.
        monkeypatch.setattr(notes, "_note", lambda *_: False)
    (step,) = (
        step for what, step in maintain_steps(lake, kept.table) if what == "totals, snapshots"
    )
    if busy:
        with pytest.raises(FenceError, match="others wrote during each of 10 notes"):
            step()
    else:
        assert step().startswith("noted again that those up to 2013-01-10 are in; those before")
    table.refresh()
    left = {r[0] for r in lake.sql(f"SELECT snapshot_id FROM {table.sql}.snapshots").collect()}
    assert (told in left) is busy
    assert find_said(table, table.head()).until == day(10)
    monkeypatch.undo()
    apply_window(lake, kept.table, day(10), day(12))
    check(lake, kept, day(12))


@pytest.mark.parametrize(
    ("job", "more", "said"),
    [
        (adopt, [], "have columns"),
        (adopt, ["--release"], "Evenkeel made it"),
    ],
)
def test_what_is_not_built_is_one_line(
    lake: SparkSession,
    kept: World,
    job,
    more,
    said,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("evenkeel_spark.runtime.command.session", lambda name: lake)
    assert job.main(["--spec", kept.spec_path, *more]) == 2
    (line,) = (x for x in capsys.readouterr().err.splitlines() if "evenkeel: error" in x)
    assert said in line


@pytest.mark.parametrize("more", [[], ["--release"], ["--release", "--registry-lost"]])
def test_a_table_of_our_own_is_not_adopted_or_released_by_another_spec(
    lake: SparkSession,
    kept: World,
    more: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It would lose its properties, and no job would bring them back."""
    before = {name: one(lake, name).properties() for name in NAMES}
    paths = {name: part.path for name, part in kept.table.spec.state.items()}
    kept.respec(
        state={n: {"path": p, "format": "iceberg", "rows": "one"} for n, p in paths.items()}
    )
    monkeypatch.setattr("evenkeel_spark.runtime.command.session", lambda name: lake)
    assert adopt.main(["--spec", kept.spec_path, *more]) == 2
    assert "Evenkeel made it" in capsys.readouterr().err
    assert {name: one(lake, name).properties() for name in NAMES} == before
