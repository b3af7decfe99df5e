"""The folder of a DAG's run: two DAGs never share one, and a run that 0.1.0 began keeps its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.html import Html
from evenkeel.registry.run_folder import MAX_NAME_LENGTH, find_folder, folder_name
from tests.support.raw_json import write_json

RUN = "manual__2026-01-01T00:00:00+00:00"
OLD = "manual__2026-01-01T00-00-00-00-00"
DAGS = ("rebalance_t", "roll_back_t", "watch_t")


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(str(tmp_path))


def leave(registry: Registry, **files: Any) -> None:
    for name, value in files.items():
        write_json(registry.run(OLD), f"{name}.json", value)


def test_two_dags_with_one_run_id_have_a_folder_each(registry: Registry) -> None:
    assert folder_name("rebalance_t", RUN) == f"rebalance_t--{OLD}"
    for first in (True, False):
        names = [find_folder(registry.store, dag, RUN, first=first) for dag in DAGS]
        assert names == [f"{dag}--{OLD}" for dag in DAGS]
    # It is the same whoever asks again, and as the jobs take it.
    assert all(registry.run(name).name == name for name in names)


def test_long_ids_that_differ_in_their_ends_alone_have_a_folder_each() -> None:
    names = {folder_name("rebalance_t", "x" * 240 + end) for end in "abc"}
    assert len(names) == 3 and {len(n) for n in names} == {MAX_NAME_LENGTH}


def test_ids_that_differ_in_signs_alone_have_a_folder_each() -> None:
    names = {folder_name("rebalance_t", f"manual{sign}1") for sign in ":-+~_"}
    assert len(names) == 5 and "rebalance_t--manual-1" in names


@pytest.mark.parametrize(
    ("files", "owner"),
    [
        ({"profile": {}, "decision": {}}, "rebalance_t"),
        ({"profile": {}, "decision": {}, "params": {"force": True}, "plan": {}}, "rebalance_t"),
        ({"profile": {}, "params": {"to_epoch": 0}, "plan": {}}, "roll_back_t"),
        ({"profile": {}, "decision": {}, "watched": {}}, "watch_t"),
    ],
)
def test_a_run_under_way_at_an_upgrade_goes_on_in_its_folder(
    registry: Registry, files: dict[str, Any], owner: str
) -> None:
    leave(registry, **files)
    for first in (True, False):
        for dag in DAGS:
            found = find_folder(registry.store, dag, RUN, first=first)
            assert (found == OLD) == (dag == owner), (dag, first)


def test_a_run_that_had_only_learned_at_an_upgrade_goes_on(registry: Registry) -> None:
    """Nothing in it says whose it is: its next task takes it, and a run that begins does not."""
    leave(registry, profile={})
    assert find_folder(registry.store, "rebalance_t", RUN) == OLD
    assert find_folder(registry.store, "rebalance_t", RUN, first=True) == f"rebalance_t--{OLD}"
    # Once a run has begun under this release, its own folder counts, whatever stands beside it.
    write_json(registry.run(f"roll_back_t--{OLD}"), "profile.json", {})
    assert find_folder(registry.store, "roll_back_t", RUN) == f"roll_back_t--{OLD}"


def test_torn_params_do_not_decide_whose_a_folder_is(registry: Registry) -> None:
    registry.run(OLD).write("params.json", b"{torn")
    assert find_folder(registry.store, "roll_back_t", RUN) == OLD


def test_a_gate_of_a_run_with_long_ids_leaves_its_page(registry: Registry) -> None:
    """A file system takes names of 255 bytes, and a file has another name until it is whole."""
    page = f"20260101T000000Z.{folder_name('rebalance_t', 'x' * 240)}.before.failed.html"
    registry.files.docs_page(page).write(Html("seen"))
    assert registry.files.docs_page(page).read() == "seen"
