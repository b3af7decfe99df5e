"""Past windows: since when a table is over its trigger, and how often files are read for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from evenkeel.inspect.load_history import over_since, past_windows
from evenkeel.registry.store import Store
from tests.support.plugin_site import profile, run_name
from tests.support.raw_json import write_json
from tests.support.worlds.shop import Shop


@pytest.fixture
def days(shop: Shop) -> list[float]:
    """Six windows learned, one a day, the last one twice; imbalance of each, the oldest first."""
    shop.registry.store.remove_folder("runs")
    for number in range(1, 8):
        end = min(number, 6)
        window = (f"2013-02-{end:02d}", f"2013-02-{end + 1:02d}")
        shop.learn(run_name(number), replace(profile(number), window=window))
    problems: list[str] = []
    found = past_windows(shop.registry, problems)
    assert [w.end for w in found] == [f"2013-02-{d:02d}" for d in range(2, 8)] and not problems
    return [w.imbalance for w in found]


def test_a_table_is_over_its_trigger_since_the_first_of_such_windows(
    shop: Shop,
    days: list[float],
) -> None:
    assert len({*days}) == 6
    for trigger in [*days, 0.5, 99.0]:
        since = None
        for day, imbalance in reversed([*zip(range(2, 8), days, strict=True)]):
            if imbalance <= trigger:
                break
            since = f"2013-02-{day:02d}"
        assert over_since(shop.registry, trigger) == since
    assert over_since(shop.registry, 0.5) == "2013-02-02"


def test_a_search_that_stops_says_or_earlier(
    shop: Shop, days: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel.inspect import load_history

    for most, looked, since in (
        (6, 60, "2013-02-02"),
        (3, 60, "2013-02-05 or earlier"),
        (6, 3, "2013-02-06 or earlier"),
    ):
        monkeypatch.setattr(load_history, "MAX_WINDOWS", most)
        monkeypatch.setattr(load_history, "LOOKED_AT", looked)
        assert over_since(shop.registry, 0.5) == since, (most, looked)


def test_files_are_read_once_and_folders_listed_once(
    shop: Shop,
    days: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: Counter[str] = Counter()

    def counted(name: str, real: Any) -> Any:
        def call(self: Store, *args: Any, **said: Any) -> Any:
            done[name] += 1
            return real(self, *args, **said)

        return call

    for name in ("exists", "read", "_listed"):
        monkeypatch.setattr(Store, name, counted(name, getattr(Store, name)))
    past_windows(shop.registry, [])
    # Seven runs and epoch 0, the list of runs and that of epochs, and the newest epoch's file.
    assert done == {"_listed": 10, "exists": 1}
    # A window that was learned anew is read anew.
    shop.learn(run_name(3), replace(profile(33), window=("2013-02-03", "2013-02-04")))
    again = [w.imbalance for w in past_windows(shop.registry, [])]
    assert [a == b for a, b in zip(again, days, strict=True)].count(False) == 1
    assert again[2] != days[2]


def test_a_watch_and_a_run_without_a_profile_are_no_windows(shop: Shop, days: list[float]) -> None:
    write_json(shop.registry.run(run_name(7)), "watched.json", {})
    write_json(shop.registry.run(run_name(6)), "watched.json", {})
    shop.registry.run(run_name(5)).remove("profile.json")
    shop.registry.run(run_name(4)).write("profile.npz", b"torn")
    problems: list[str] = []
    found = past_windows(shop.registry, problems)
    assert [w.end for w in found] == ["2013-02-02", "2013-02-03", "2013-02-04"]
    assert len(problems) == 1 and "profile.npz" in problems[0]
