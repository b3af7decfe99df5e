"""Which of several runs' profiles is the newest one."""

from __future__ import annotations

from pathlib import Path

from evenkeel.registry.profiles import newest_profile, run_names
from tests.support.raw_json import read_json, write_json
from tests.support.worlds.shop import Shop


def learned(shop: Shop, run: str, at: str | None) -> None:
    shop.learn(run)
    folder = shop.registry.run(run)
    write_json(folder, "profile.json", {**read_json(folder, "profile.json"), "at": at})


def test_a_run_with_a_name_of_its_own_counts_from_when_it_learned(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    learned(shop, "scheduled__2026-01-02T00:00:00+00:00", "2026-01-02T09:46:00+00:00")
    learned(shop, "first", "2026-01-02T09:48:00+00:00")
    learned(shop, "scheduled__2026-01-03T00:00:00+00:00", "2026-01-03T00:01:00+00:00")
    learned(shop, "old", None)
    learned(shop, "manual__2026-01-02T09:50:00+00:00", None)
    assert run_names(shop.registry) == [
        "scheduled__2026-01-03T00-00-00-00-00",
        "manual__2026-01-02T09-50-00-00-00",
        "first",
        "scheduled__2026-01-02T00-00-00-00-00",
        "r",
        "old",
    ]
    assert newest_profile(shop.registry).at == "2026-01-03T00:01:00+00:00"


def test_a_run_whose_profile_is_torn_comes_last(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    learned(shop, "first", "2026-01-02T09:48:00+00:00")
    shop.registry.run("torn").write("profile.json", b"{")
    assert run_names(shop.registry)[0] == "first"
