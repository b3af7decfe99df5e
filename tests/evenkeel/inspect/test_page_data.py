"""What the pages are made from: readings of the registry, prices, values that people type."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from evenkeel.inspect.epoch_charts import epochs_svg, planned_svg
from evenkeel.inspect.epoch_diff import compare
from evenkeel.inspect.key_history import owner_names, past, stays
from evenkeel.inspect.status import table_status
from evenkeel.pipeline import steps
from evenkeel.quality.history import over_epochs
from evenkeel.registry.profiles import epoch_plan, newest_profile, run_names
from evenkeel.render.curve_chart import curve_svg
from evenkeel.render.formatting import bytes_text, read_bytes
from evenkeel.runs.params import Throttling, channels_for
from evenkeel.runs.prediction import predict
from evenkeel.spec.loading import load_spec
from evenkeel.spec.run_params import Params
from evenkeel.table import open_table
from partitioning.errors import DamagedError, InputError
from partitioning.function.channels import numbered_channels
from partitioning.function.function import successor
from partitioning.moves.moves import Move
from tests.support.plugin_site import profile
from tests.support.raw_json import table_moved, write_json
from tests.support.worlds.shop import KEY, Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Epochs 0 to 2, each planned from another profile."""
    made = Shop(tmp_path)
    for number in (1, 2):
        run = f"manual__2013-02-0{number}T00-00-00"
        made.learn(run, profile(number))
        made.plan(run, force=True)
        made.verified(run)
        steps.publish(made.spec, run)
    return made


def test_the_newest_run_is_told_by_its_time(shop: Shop) -> None:
    for run in ("scheduled__2013-02-01T12-00-00", "mine"):
        shop.learn(run)
    names = run_names(shop.registry)
    assert names[:2] == ["manual__2013-02-02T00-00-00", "scheduled__2013-02-01T12-00-00"]
    assert newest_profile(shop.registry).source == names[0]


def test_an_epochs_profile_serves_where_runs_are_gone(shop: Shop) -> None:
    for name in shop.registry.store.names("runs"):
        for file in ("profile.npz", "profile.json"):
            shop.registry.run(name).remove(file)
    assert newest_profile(shop.registry).source == "00000002"


def test_every_share_of_a_split_key_counts_as_a_move(tmp_path: Path) -> None:
    made = Shop(tmp_path, split={"by": "id"})
    made.learn_row("r", profile(1, heaviest=9))
    made.plan(force=True, max_imbalance=1.005)
    made.verified()
    steps.publish(made.spec, "r")
    plan = epoch_plan(made.registry, 1)
    assert plan and sum(m.kind == "share" for m in plan.moves) > len(plan.function.split) > 0
    (newest,) = past(made.registry, 1)
    assert newest.plan and newest.plan.moves == len(plan.moves)


def test_standing_tells_what_is_missing_and_goes_on(shop: Shop) -> None:
    shop.registry.store.write("epochs/00000002/plan.json", b"{")
    shop.registry.run("manual__2013-02-02T00-00-00").write("profile.npz", b"torn")
    found = table_status(open_table(shop.spec))
    assert found.epoch is not None and found.epoch.number == 2
    assert found.plan is None and found.learned is None and found.imbalance is None
    assert len(found.problems) == 2 and "plan.json" in found.problems[0]


def test_a_torn_epoch_leaves_the_last_that_can_be_read(shop: Shop) -> None:
    shop.registry.store.write("epochs/00000002/epoch.json", b"{}")
    found = table_status(open_table(shop.spec))
    assert found.epoch is not None and found.epoch.number == 1 and found.shares
    assert "epochs/00000002/epoch.json" in found.problems[0]
    assert "this page shows epoch 1" in found.problems[1]


def test_a_key_stays_until_its_channel_changes(shop: Shop) -> None:
    epochs = past(shop.registry)
    keys = profile(1).heavy
    lived = stays(shop.registry, epochs, keys)
    changed = 0
    for i, key in enumerate(keys):
        owners = [e.epoch.function.lookup_hashes(np.array([key]))[0] for e in epochs[::-1]]
        starts = [n for n in range(3) if n == 0 or owners[n] != owners[n - 1]]
        assert [s.epoch for s in lived[i]] == starts[::-1]
        assert lived[i][0].channel == str(owners[-1])
        assert lived[i][-1].why == "bootstrap"
        assert all("fair share" in s.why for s in lived[i][:-1])
        changed += len(starts) - 1
    assert changed


def test_comparison_is_what_differs_with_the_reasons_in_between(shop: Shop) -> None:
    registry = shop.registry
    found = compare(registry, 0, 2, profile(2))
    old, new = registry.epoch(0).function, registry.epoch(2).function
    slots = {m.item for m in found.moves if m.kind == "slot"}
    assert slots == set(np.flatnonzero(old.slots != new.slots).tolist())
    assert found.moves and all(m.reason.startswith("epoch ") for m in found.moves)
    back = compare(registry, 2, 0, None)
    assert {(m.source, m.target) for m in back.moves if m.kind == "slot"} == {
        (m.target, m.source) for m in found.moves if m.kind == "slot"
    }
    with pytest.raises(InputError, match="no epoch 9"):
        compare(registry, 0, 9, None)


def test_neighbours_are_weighed_as_the_plan_between_them(shop: Shop) -> None:
    plan = epoch_plan(shop.registry, 1)
    assert plan is not None
    # The newest profile is another one by now.
    found = compare(shop.registry, 0, 1, profile(2))
    assert found.planned and found.weighed

    def told(moves: tuple[Move, ...]) -> set[tuple[str, float, float]]:
        return {(m.name, m.load, m.bytes) for m in moves}

    assert told(found.moves) == told(plan.moves)
    assert told(compare(shop.registry, 1, 0, None).moves) == told(plan.moves)
    far = compare(shop.registry, 0, 2, profile(2))
    assert far.weighed and not far.planned
    assert not compare(shop.registry, 0, 2, None).weighed
    # A lost profile, or a damaged one, leaves today's weights.
    kept = shop.registry.archive(1)
    kept.profile.remove()
    found = compare(shop.registry, 0, 1, profile(2))
    assert found.weighed and not found.planned
    (Path(kept.url) / "kept.json").unlink()
    kept.write("profile.npz", b"torn")
    found = compare(shop.registry, 0, 1, profile(2))
    assert not found.planned and any("profile.npz" in p for p in found.problems)


def test_price_is_as_measured_and_unknown_before(shop: Shop) -> None:
    run = shop.registry.run("manual__2013-02-02T00-00-00")
    made, learned = steps.read_plan(run), replace(profile(2), events=1000)
    assert predict(shop.registry, made, learned).seconds is None
    first = steps.read_plan(shop.registry.run("manual__2013-02-01T00-00-00"))
    weight = first.bytes / sum(m.rows for m in first.moves)
    cost = table_moved(rows=50, bytes=500, seconds=2.0)
    moved = {"digest": "d", "epoch": 1, "tables": {"counts": cost}}
    # Its own migration changes nothing of what was predicted, and what an approver saw.
    write_json(shop.registry.files, "epochs/00000002/migration.json", moved)
    assert predict(shop.registry, made, learned).seconds is None
    write_json(shop.registry.files, "epochs/00000001/migration.json", moved)
    window = {"channels": [{"rows": 1000, "seconds": 10.0}]}
    write_json(shop.registry.files, "windows/2013-02-02.json", window)
    told = predict(shop.registry, made, learned)
    rate = 50 * weight / 2
    assert told.seconds == pytest.approx(
        max(made.bytes / rate, 2.0)
    ) and told.rate == pytest.approx(rate)
    gain = made.imbalance_before - made.imbalance_after
    assert told.saved_daily == pytest.approx(gain * 10.0 / 4 / 28)
    assert told.days == pytest.approx(told.seconds / told.saved_daily)
    # However little moves, a migration has its fixed costs.
    little = tuple(replace(m, bytes=m.bytes / 1e6) for m in made.moves)
    assert predict(shop.registry, replace(made, moves=little), learned).seconds == 2.0
    # Held to a rate, it takes as long as the rate allows for.
    slow = predict(shop.registry, made, learned, Throttling(rate=10))
    assert slow.seconds == slow.limit == pytest.approx(slow.written / 10)
    assert slow.days == pytest.approx(slow.seconds / told.saved_daily)


def test_expectations_are_lined_up_over_epochs(shop: Shop) -> None:
    def gate(*results: tuple[str, bool]) -> dict[str, object]:
        said = [{"what": w, "success": s, "severity": "critical"} for w, s in results]
        return {"success": all(s for _, s in results), "results": said}

    write = partial(write_json, shop.registry.files)
    write("epochs/00000001/gate_plan.json", gate(("a", True), ("b", False)))
    write("epochs/00000002/gate_plan.json", gate(("b", True)))
    write("epochs/00000000/gate_plan.json", ["no gate"])
    rows, problems = over_epochs(shop.registry, [2, 1, 0])
    before = {r.what: [x and x.success for x in r.results] for r in rows if r.suite == "before"}
    assert before == {"b": [True, False, None], "a": [None, True, None]}
    assert len(problems) == 1 and "epochs/00000000/gate_plan.json" in problems[0]


@pytest.mark.parametrize(
    ("text", "size"),
    [("812", 812), ("1,000,000", 10**6), ("10 MB", 10**7), ("1.5kB", 1500), (" 2 GB ", 2 * 10**9)],
)
def test_bytes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert read_bytes(text) == size
    assert read_bytes(bytes_text(size)) == size


@pytest.mark.parametrize(
    "text", ["", "ten", "-1", "1.5", "10 mb", "MB", "1e3", "1,5 GB", "1,500 GB", "10,00", "1,0"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="must be whole bytes"):
        read_bytes(text)


def test_weights_asked_for_are_the_channels_own(shop: Shop) -> None:
    spec, epoch = load_spec(shop.spec), shop.registry.current()

    def asked(**values: object) -> list[tuple[str, float]]:
        found = channels_for(spec, epoch, shop.registry, Params.of(values))
        return [(c.name, c.capacity) for c in found]

    assert asked(capacities=[1, 0, 2]) == [("0", 1), ("1", 0), ("2", 2)]
    assert asked(capacities=[1] * 4 + [2], channels=5)[-1] == ("4", 2)
    with pytest.raises(InputError, match="2 weights for 3 channels"):
        asked(capacities=[1, 1], channels=3)
    for weights in ([0, 0], [-1, 2], [float("inf")]):
        with pytest.raises(InputError, match="capacities: allowed"):
            asked(capacities=weights)


def test_a_torn_epoch_is_told_in_its_row(shop: Shop) -> None:
    shop.registry.store.write("epochs/00000001/epoch.json", b"{}")
    rows = past(shop.registry)
    assert [r.number for r in rows] == [2, 1, 0]
    assert rows[1].epoch is None and "epoch.json" in str(rows[1].problem)
    with pytest.raises(DamagedError):
        shop.registry.epoch(1)


def test_an_edited_plan_is_not_taken_for_the_one_that_ran(shop: Shop) -> None:
    name = "epochs/00000001/plan.json"
    assert epoch_plan(shop.registry, 1) is not None
    plan = json.loads(shop.registry.store.read(name))
    write_json(shop.registry.files, name, plan | {"state_bytes": 1.0})
    with pytest.raises(DamagedError, match="not the file that was kept"):
        epoch_plan(shop.registry, 1)
    shop.registry.store.remove("epochs/00000001/kept.json")
    with pytest.raises(DamagedError, match="not the plan that led to this epoch"):
        epoch_plan(shop.registry, 1)


def drawn(svg: str) -> tuple[list[str], list[str]]:
    """Titles and labels of what is drawn, and where the curve turns."""
    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    lines = [p for p in root.iter(f"{space}path") if p.findtext(f"{space}title") == "the curve"]
    told = [t.text or "" for tag in ("title", "text") for t in root.iter(f"{space}{tag}")]
    return told, [line.get("d", "") for line in lines]


@pytest.mark.parametrize(
    ("chosen", "through"),
    [((10.0, 1.5), False), ((15.0, 1.9), False), ((15.0, 1.1), True), ((40.0, 1.0), True)],
)
def test_the_curve_goes_through_what_was_chosen_where_that_beats_it(
    chosen: tuple[float, float], through: bool
) -> None:
    curve = [(0.0, 2.0), (10.0, 1.5), (20.0, 1.2), (30.0, 1.05)]
    levels = [("floor", 1.0), ("hashing", 2.0)]
    ((line,),) = [drawn(curve_svg(curve, [], chosen, levels))[1]]
    ((alone,),) = [drawn(curve_svg(curve, [], (chosen[0], 2.0), levels))[1]]
    assert (line != alone) is through


def test_pictures_of_epochs_tell_imbalance_and_bytes(shop: Shop) -> None:
    plans = [e.plan for e in reversed(past(shop.registry)) if e.plan]
    assert len(plans) == 2
    for several in (plans, plans[:1]):
        told, _ = drawn(planned_svg(several))
        for plan in several:
            assert f"epoch {plan.epoch}: {bytes_text(plan.bytes)} planned to move" in told
        told, _ = drawn(epochs_svg(several))
        assert {"hashing alone", "before", "after", "floor"} <= set(told)
        # Each epoch is written once.
        assert [t for t in told if t.isdecimal()] == [str(p.epoch) for p in several]


def test_a_split_key_lives_on_all_its_channels() -> None:
    keys = np.array([5, 7, 9], dtype=np.int64)
    channels = numbered_channels(3)
    made = successor(KEY, None, channels, np.zeros(8), "x", split={7: {2: 3.0, 1: 1.0}})
    assert owner_names(made, keys) == ["0", "2 (75%), 1 (25%)", "0"]
