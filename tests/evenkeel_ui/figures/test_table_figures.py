"""Pages of random tables, of every shape: every figure is the one of the files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from evenkeel.render.formatting import (
    bytes_text,
    count_text,
    imbalance_text,
    percent_text,
    seconds_text,
)
from partitioning.function.split import PARTS_OF_A_KEY
from partitioning.workload.metrics import imbalance
from tests.evenkeel_ui.figures.conftest import Pages
from tests.support.pages.run_files import Files, moves_of, of_plan, plain
from tests.support.plugin_site import profile, run_name

pytestmark = pytest.mark.airflow


def test_the_overview(made: Pages) -> None:
    files = made.files
    (row,) = [r for r in made.seen("overview").tables["Tables"] if r["Table"] == "words"]
    function = files.epoch.function
    told = imbalance_text(imbalance(files.loads, function.capacities))
    fullest = f"{function.channels[files.fullest].name}, {told}x fair share"
    assert row["Imbalance"] == told == imbalance_text(files.plan.imbalance_after)
    assert row["Fullest channel"] == fullest
    assert row["Epoch"] == str(files.epoch.number) and row["Trigger"] == "1.1"
    assert row["Floor"] == imbalance_text(files.plan.floor)
    assert row["Planned then"] == plain(bytes_text(files.plan.bytes))
    assert row["State size"] == plain(bytes_text(float(files.profile.bytes.sum())))
    assert row["Last rebalance"] == f"{files.epoch.published[:16].replace('T', ' ')} UTC"
    learned = datetime(2013, 2, int(files.run[16:18]), tzinfo=UTC)
    days = (datetime.now(UTC) - learned) / timedelta(days=1)
    assert row["Updated"] == f"{days:,.0f} d ago read just now"
    # The shop writes no page of table checks; the job verify does.
    assert row["Checks"] == "Plan checks passed"


def test_the_table(made: Pages) -> None:
    files = made.files
    seen, function = made.seen("?every=true"), files.epoch.function
    assert seen.named == {
        "imbalance now": imbalance_text(imbalance(files.loads, function.capacities)),
        "trigger": "1.1",
        "floor": imbalance_text(files.plan.floor),
        "state": plain(bytes_text(float(files.profile.bytes.sum()))),
        "channels": str(len(function.channels)),
    }
    slots = np.bincount(function.slots, minlength=len(function.channels))
    keys = np.bincount(function.explicit_channels, minlength=len(function.channels))
    assert sorted(seen.tables["Channels"], key=lambda row: int(row["Channel"])) == [
        {
            "Channel": channel.name,
            "x fair share": imbalance_text(files.shares[i]),
            "Load": count_text(files.loads[i]),
            "Capacity": f"{channel.capacity:g}",
            "Slots": f"{slots[i]:,}",
            "Pinned keys": f"{keys[i]:,}",
        }
        for i, channel in enumerate(function.channels)
    ]
    profile = files.profile
    shares = profile.heavy_load / profile.load.sum()
    wanted = {
        plain(name): (plain(percent_text(shares[i])), plain(bytes_text(profile.heavy_bytes[i])))
        for i, name in enumerate(profile.heavy_names)
    }
    told = {r["Key"]: (r["Share of load"], r["State"]) for r in seen.tables["Heavy keys"]}
    # A split key that is light by now has no load here.
    light = {key for key in told if key.endswith(" not in the profile")}
    assert len(light) == len({*function.split.keys.tolist()} - {*profile.heavy.tolist()})
    assert {key: told[key] for key in told.keys() - light} == wanted
    assert len(seen.tables["Epochs"]) == files.epoch.number + 1
    for row in seen.tables["Epochs"][:-1]:
        plan = files.registry.archive(int(row["Epoch"])).plan.read()
        shown = {
            "imbalance before": row["Before"],
            "imbalance after": row["After"],
            "floor": row["Floor"],
            "hashing alone": row["Hashing alone"],
            "state to move": row["Planned then"],
            "moves": row["Moves"],
        }
        wanted = of_plan(plan)
        assert shown == {name: wanted[name] for name in shown}, row["Epoch"]
        assert row["Strategy"] == plan.function.strategy


def test_the_channel(made: Pages) -> None:
    files = made.files
    function, names, current = files.epoch.function, files.names, files.epoch.number
    seconds = {
        end: json.loads(files.registry.store.read(f"windows/{end}.json"))["channels"]
        for end in ("2013-01-03", "2013-01-02")
    }
    for number, channel in enumerate(function.channels):
        seen = made.seen(f"/channels/{number}?every=true")
        assert seen.named["load"] == f"{imbalance_text(files.shares[number])}x fair share"
        assert seen.named["capacity"] == f"{channel.capacity:g}"
        moves = [m for m in files.plan.moves if number in (m.source, m.target)]
        rows = [r for r in seen.tables.get("Moves", []) if r["Epoch"] == str(current)]
        columns = ("What", "In or out", "From or to", "Load", "State", "Why")
        assert sorted(tuple(r[c] for c in columns) for r in rows) == sorted(
            (
                plain(m.name),
                "in" if m.target == number else "out",
                names[m.source if m.target == number else m.target],
                count_text(m.load),
                plain(bytes_text(m.bytes)),
                plain(f"epoch {current}: {m.reason}"),
            )
            for m in moves
        )
        parts = seen.tables.get("Keys and slots", [])
        told = sorted(tuple(r[c] for c in ("What", "How", "Load", "State")) for r in parts)
        assert told == sorted(parts_of(files, number))
        worked = [
            {
                "Window to": end,
                "Rows": f"{work[number]['rows']:,}",
                "Seconds of its task": plain(seconds_text(work[number]["seconds"])),
            }
            for end, work in seconds.items()
        ]
        assert seen.tables["Measured seconds"] == worked


def parts_of(files: Files, number: int) -> Iterator[tuple[str, str, str, str]]:
    """What a channel carries, as its page lists it: slots without their heavy keys, and keys."""
    function, profile = files.epoch.function, files.profile
    load = profile.tail(profile.load, profile.heavy_load)
    size = profile.tail(profile.bytes, profile.heavy_bytes)
    for slot in np.flatnonzero(function.slots == number):
        yield f"slot {slot}", "slot", count_text(load[slot]), plain(bytes_text(size[slot]))
    owners, pinned = function.lookup_hashes(profile.heavy), {*function.explicit_keys.tolist()}
    for i, key in enumerate(profile.heavy.tolist()):
        part = float(owners[i] == number)
        how = "pinned key" if key in pinned else "key, by its slot"
        if (shared := function.split.weights.get(key)) is not None:
            part = shared.get(number, 0.0) / PARTS_OF_A_KEY
            how = f"split key ({part:.0%})"
        if part:
            weight = count_text(profile.heavy_load[i] * part)
            state = plain(bytes_text(profile.heavy_bytes[i] * part))
            yield plain(profile.heavy_names[i]), how, weight, state


def test_the_comparison(made: Pages) -> None:
    files = made.files
    ours = {
        (m["What"], m["From"], m["To"], m["Load"], m["State"])
        for m in moves_of(files.plan, files.names)
    }
    # Whatever was learned since, the figures are those of the plan.
    later = run_name(28)
    made.shop.learn(later, profile(28))
    try:
        seen = made.seen("/compare?every=true").tables["What moved"]
        told = {(m["What"], m["From"], m["To"], m["Load"], m["State"]) for m in seen}
        assert told == ours
        text = plain(made.site.client("vic").get(f"{made.home}/compare").text)
        assert f"{plain(bytes_text(files.plan.bytes))} of state by the weights of its plan" in text
    finally:
        files.registry.store.remove_folder(f"runs/{later}")
    old = files.registry.epoch(0).function
    new = files.epoch.function
    seen = made.seen(f"/compare?old=0&new={files.epoch.number}&every=true").tables["What moved"]
    slots = np.flatnonzero(old.slots != new.slots)
    assert {r["What"] for r in seen if r["What"].startswith("slot ")} == {
        f"slot {s}" for s in slots
    }
