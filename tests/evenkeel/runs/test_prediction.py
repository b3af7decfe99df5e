"""What a migration is predicted to cost by rate and batches, kept once, beside what it cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenkeel.pipeline import approval, steps
from evenkeel.quality.tables_suite import FILE_OVERHEAD
from evenkeel.registry.files.migration_records import MigrationRecord, TableMigrated
from evenkeel.registry.profiles import newest_profile
from evenkeel.runs.figures import break_even, figures, numbers
from evenkeel.runs.params import Throttling
from evenkeel.runs.prediction import predict
from evenkeel.runs.timings import pace
from partitioning.errors import DamagedError
from partitioning.planning.decide import Pace
from partitioning.planning.plan import Plan
from tests.support.raw_json import read_json, table_moved, write_json
from tests.support.worlds.shop import Shop


@pytest.fixture
def made(shop: Shop) -> Plan:
    """A plan of epoch 2; the migration to epoch 1 was measured."""
    shop.publish("r")
    shop.learn("r2")
    shop.plan("r2", force=True, max_imbalance=1.001)
    return steps.read_plan(shop.registry.run("r2"))


def measured(shop: Shop, **table: Any) -> None:
    """Let the migration to epoch 1 have cost this."""
    cost = {"rows": 10**6, "bytes": 10**6, "seconds": 4.0, **table}
    table = table_moved(**cost | {"rows": round(cost["rows"]), "bytes": round(cost["bytes"])})
    record = {"digest": "d", "epoch": 1, "tables": {"counts": table}}
    (Path(shop.registry.archive(1).url) / "kept.json").unlink(missing_ok=True)
    write_json(shop.registry.files, "epochs/00000001/migration.json", record)


def test_the_rate_is_of_bytes_moved_not_of_bytes_written(shop: Shop, made: Plan) -> None:
    first = steps.read_plan(shop.registry.run("r"))
    rows = sum(m.rows for m in first.moves)
    # Files of few rows are mostly footer: a thousand times as much is written as moved.
    measured(shop, rows=rows, bytes=first.bytes * 1000, files=10, commits=[3, 5])
    assert pace(shop.registry) == Pace(first.bytes / 4.0, 4.0)
    # Half of the planned rows were there by then: half of the bytes moved.
    measured(shop, rows=rows / 2, bytes=first.bytes * 1000, files=10)
    assert pace(shop.registry) == Pace(first.bytes / 2 / 4.0, 4.0)


def test_written_is_moved_and_the_footers_of_the_files(shop: Shop, made: Plan) -> None:
    told = predict(shop.registry, made, shop.profile)
    ways = {(m.source, m.target) for m in made.moves}
    assert told.files == len(ways) and told.commits == 1 and told.bytes == made.bytes
    assert told.written == made.bytes + FILE_OVERHEAD * len(ways)
    # The files that there are tell, but there are no footers of more than that.
    told = predict(shop.registry, made, shop.profile, footer=2100.0)
    assert told.written == made.bytes + 2100 * len(ways)
    told = predict(shop.registry, made, shop.profile, footer=1e9)
    assert told.written == made.bytes + FILE_OVERHEAD * len(ways)
    first = steps.read_plan(shop.registry.run("r"))
    rows = sum(m.rows for m in first.moves)
    measured(shop, rows=rows, bytes=first.bytes + 10 * 1700, files=10, commits=[3])
    told = predict(shop.registry, made, shop.profile, footer=2100.0)
    assert told.written == pytest.approx(made.bytes + 1700 * len(ways))


def test_seconds_are_those_of_every_batch_and_of_the_rate(shop: Shop, made: Plan) -> None:
    first = steps.read_plan(shop.registry.run("r"))
    rows = sum(m.rows for m in first.moves)
    cost = {"bytes": first.bytes + 1700, "files": 1, "seconds": 6.0, "commits": [3, 4]}
    measured(shop, rows=rows, **cost)
    one = predict(shop.registry, made, shop.profile)
    rate = first.bytes / 6.0
    assert one.seconds == pytest.approx(max(made.bytes / rate, 3.0)) and one.limit == 0
    # A commit takes three seconds, however little it moves.
    many = predict(shop.registry, made, shop.profile, Throttling(batch=int(made.bytes / 5)))
    assert many.commits > 3
    assert sum(b.bytes for b in many.batches) == pytest.approx(made.bytes)
    assert sum(b.rows for b in many.batches) == pytest.approx(sum(m.rows for m in made.moves))
    each = [max(b.bytes / rate, 3.0) for b in many.batches]
    assert many.seconds == pytest.approx(sum(each)) and many.seconds >= 12
    # The rate is held by bytes of files: footers count.
    slow = predict(shop.registry, made, shop.profile, Throttling(rate=10))
    assert slow.limit == slow.seconds == pytest.approx(slow.written / 10)
    assert slow.written > made.bytes


def saving(shop: Shop, run: str, **asked: Any) -> tuple[Plan, float]:
    """A plan, and what it saves in its 28 days where one unit of load takes a second."""
    shop.learn(run, replace(shop.profile, events=1000))
    shop.plan(run, force=True, **asked)
    made = steps.read_plan(shop.registry.run(run))
    load = float(shop.profile.load.sum())
    window = {"channels": [{"channel": 0, "rows": 1000, "seconds": load}]}
    write_json(shop.registry.files, "windows/2013-01-29.json", window)
    profile = shop.registry.run(run).profile.read()
    told = predict(shop.registry, made, profile)
    assert told.saved_daily is not None
    return made, told.saved_daily * 28


def test_more_channels_save_what_the_fullest_waits_less(shop: Shop) -> None:
    made, saved = saving(shop, "more", channels=8)
    assert saved == pytest.approx(max(made.loads_before) - max(made.loads_after))
    # Eight even channels carry half of what four carried.
    assert saved > sum(made.loads_before) / 4 * 0.4
    made, saved = saving(shop, "fewer", channels=2)
    assert saved < 0 and not break_even(predict(shop.registry, made, None), 28)[0].startswith("pay")


def test_a_drain_saves_a_finite_time(shop: Shop) -> None:
    made, saved = saving(shop, "drain", capacities=[1, 1, 1, 0])
    assert made.loads_before[3] > 0 == made.loads_after[3]
    assert saved == pytest.approx(max(made.loads_before) - max(made.loads_after))


def test_a_channel_of_twice_the_weight_is_twice_as_fast(shop: Shop) -> None:
    made, saved = saving(shop, "heavy", capacities=[2, 1, 1, 1])
    after = np.array(made.loads_after) / [2, 1, 1, 1]
    assert saved == pytest.approx(max(made.loads_before) - after.max())
    # Measured on those weights, a channel of weight 1 is slower than what was measured.
    steps.validate_plan(shop.spec, "heavy")
    shop.verified("heavy")
    steps.publish(shop.spec, "heavy")
    made, saved = saving(shop, "even", capacities=[1, 1, 1, 1])
    before, after = (1.25 * np.array(x) for x in (made.loads_before, made.loads_after))
    assert saved == pytest.approx((before / [2, 1, 1, 1]).max() - after.max())


def test_the_approver_reads_the_fullest_channel_by_its_fair_share(shop: Shop) -> None:
    heavy = {"name": "big", "capacity": 9.0}
    others = [{"name": f"c{i}", "capacity": 1.0} for i in range(3)]
    shop.respec(channels=[heavy, *others], approve_over=0)
    shop.learn("r2")
    shop.plan("r2", force=True)
    made = steps.read_plan(shop.registry.run("r2"))
    loads = np.array(made.loads_before)
    share = loads / (np.array([9, 1, 1, 1]) / 12 * loads.sum())
    fullest = int(share.argmax())
    asked = approval.request(shop.spec, "r2")
    assert asked is not None and fullest != 0
    told = f"| fullest channel now | c{fullest - 1}, {share[fullest]:.3f}x fair share |"
    assert told in asked.body


def test_a_prediction_is_made_once_for_a_plan_and_never_again(shop: Shop, made: Plan) -> None:
    run = shop.registry.run("r2")
    kept = run.prediction(made.digest).find()
    assert kept is not None and kept.seconds is None
    file = f"prediction_{made.digest[:12]}.json"
    before = run.read(file)
    measured(shop)
    assert shop.plan("r2", force=True, max_imbalance=1.001) == made.digest
    shop.verified("r2")
    steps.publish(shop.spec, "r2")
    assert run.read(file) == before == shop.registry.archive(2).read("prediction.json")
    assert predict(shop.registry, made, shop.profile).seconds is not None
    # Another plan of the run has its own.
    shop.learn("r3")
    digests = [shop.plan("r3", force=True, max_imbalance=aim) for aim in (1.001, 1.4)]
    there = [shop.registry.run("r3").prediction(digest).find() for digest in digests]
    assert [p and p.digest for p in there] == digests and digests[0] != digests[1]


def test_a_run_predicts_by_the_footer_that_it_learned(shop: Shop, made: Plan) -> None:
    run = shop.registry.run("r3")
    shop.learn("r3")
    write_json(run, "profile.json", {**read_json(run, "profile.json"), "footer": 2100.0})
    shop.plan("r3", force=True, max_imbalance=1.001)
    plan = steps.read_plan(run)
    kept = run.prediction(plan.digest).find()
    assert kept is not None and kept.files > 0
    assert kept.written == plan.bytes + 2100 * kept.files
    # A preview knows it, too.
    assert newest_profile(shop.registry).footer == 2100.0


def test_what_an_approver_was_told_is_what_the_run_kept(shop: Shop, made: Plan) -> None:
    measured(shop, rows=1, files=1, commits=[3])
    shop.learn("r3")
    shop.plan("r3", force=True, max_imbalance=1.001, rate=10)
    shop.respec(approve_over=0)
    kept = (
        shop.registry.run("r3").prediction(steps.read_plan(shop.registry.run("r3")).digest).find()
    )
    asked = approval.request(shop.spec, "r3")
    assert kept is not None and asked is not None
    told = {f.name: f for f in figures(made, kept, None)}
    for name in ("bytes_written", "commits", "seconds"):
        assert f"| {told[name].title} | {told[name].texts[0]} predicted |" in asked.body


def test_a_torn_record_of_the_past_stops_no_plan(shop: Shop, made: Plan) -> None:
    measured(shop)
    shop.registry.store.write("epochs/00000001/migration.json", b"{")
    with pytest.raises(DamagedError):
        predict(shop.registry, made, shop.profile)
    shop.learn("back")
    digest = steps.plan_rollback(shop.spec, "back", 0)
    assert shop.registry.run("back").prediction(digest).find() is None


def test_what_is_no_prediction_is_damaged(shop: Shop, made: Plan) -> None:
    file = shop.registry.run("r3").prediction(made.digest)
    predicted = predict(shop.registry, made, shop.profile)
    file.write(predicted)
    assert file.read() == predicted
    whole = read_json(shop.registry.run("r3"), file.name)
    # A record that weighed saving by window: it was of no known days.
    older = {k: v for k, v in whole.items() if k != "saved_daily"} | {"saved": 5.0, "seconds": 9.0}
    write_json(shop.registry.run("r3"), file.name, older)
    assert break_even(file.read(), 28)[0].startswith("not known")
    for name, wrong in [*((name, "much") for name in whole), ("batches", [{"rows": 1}])]:
        changed = whole | {name: 1 if name == "digest" else wrong}
        write_json(shop.registry.run("r3"), file.name, changed)
        with pytest.raises(DamagedError, match=f"{file.name}: {name}"):
            file.read()


def test_break_even_says_so_where_it_does_not_pay(shop: Shop, made: Plan) -> None:
    told = predict(shop.registry, made, shop.profile).model_copy(
        update={"seconds": 29.4, "saved_daily": 1.0}
    )
    text = "pays back after 29.4 days; the horizon is 28: it does not pay"
    assert break_even(told, 28) == (text, False)
    assert break_even(told, 30) == ("pays back after 29.4 days, within the horizon of 30", True)
    assert not break_even(told.model_copy(update={"saved_daily": 0.0}), 28)[1]
    assert break_even(told.model_copy(update={"saved_daily": None}), 28)[1]
    assert break_even(None, 28)[1]


def test_figures_are_unknown_where_nothing_tells(shop: Shop, made: Plan) -> None:
    found = numbers(figures(made, None, None))
    assert found["bytes_moved"] == {"predicted": made.bytes, "measured": None}
    assert found["bytes_written"] == {"predicted": None, "measured": None}
    rows = sum(m.rows for m in made.moves)
    one = table_moved(rows=round(rows), bytes=7, files=2, commits=[1, 2], seconds=1.5)
    tables = {"a": TableMigrated(**one), "b": TableMigrated(**one | {"elapsed": 9.0})}
    record = MigrationRecord(digest=made.digest, epoch=2, tables=tables)
    found = numbers(figures(made, None, record))
    assert found["bytes_moved"]["measured"] == pytest.approx(2 * made.bytes)
    assert found["bytes_written"]["measured"] == 14 and found["commits"]["measured"] == 4
    # Where a table waited for its rate, that counts.
    assert found["seconds"]["measured"] == 10.5
