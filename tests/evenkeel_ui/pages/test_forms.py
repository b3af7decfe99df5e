"""Starting what a preview showed: where the clock ends the search, and two presses at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest
import yaml

from evenkeel.registry.run_folder import folder_name
from evenkeel.registry.store import Store
from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.failed_runs import press
from tests.support.pages.repairs import press as repair
from tests.support.plugin_site import (  # noqa: F401  a fixture
    Site,
    dag_runs,
    end_runs,
    made_site,
    profile,
    run_name,
    start,
    token,
)
from tests.support.worlds.shop import SPEC

pytestmark = pytest.mark.airflow
HOME = "/evenkeel/tables/words"


def test_a_preview_whose_search_the_clock_ends_can_be_started(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenkeel_ui.pages import forms

    real, made = forms.plan_next, []

    def other_each_time(*given: Any) -> Any:
        """As a slow machine's: the search ended sooner or later than the time before."""
        aim = (1.005, 1.3)[len(made) % 2]
        params = given[4].model_copy(update={"max_imbalance": aim})
        made.append(real(*(*given[:4], params, *given[5:])))
        return made[-1]

    def respec(**options: Any) -> None:
        Path(site.shop.spec).write_text(yaml.safe_dump({**SPEC, "options": options}))

    monkeypatch.setattr(forms, "plan_next", other_each_time)
    client, path = site.client("uma"), f"{HOME}/rebalance"
    before = len(dag_runs("rebalance_words"))
    assert start(client, path, {"force": "true"}).status_code == 409
    assert made[0].digest != made[1].digest
    respec(seconds=5)
    try:
        assert start(client, path, {"force": "true"}).status_code == 303
        assert len(dag_runs("rebalance_words")) == before + 1
        # A newer profile is still another preview.
        shown = client.get(path, params={"force": "true"}).text
        to = shown.split('formaction="')[1].split('"')[0]
        token = shown.split('name="csrf" value="')[1].split('"')[0]
        end_runs()
        site.shop.learn(run_name(20), profile(20))
        answer = client.post(to, data={"force": "true", "csrf": token})
        assert answer.status_code == 409 and "newer profile" in answer.text
    finally:
        site.shop.respec()


def together(monkeypatch: pytest.MonkeyPatch, presses: list[Callable[[], Any]]) -> list[int]:
    """Press all at once, each once all have read the table's files; return the statuses."""
    from evenkeel_ui.airflow_runs import stuck

    real, meet = stuck.open_move, Barrier(len(presses))

    def read(*given: Any) -> Any:
        move = real(*given)
        with suppress(BrokenBarrierError):
            meet.wait(timeout=2)
        return move

    monkeypatch.setattr(stuck, "open_move", read)
    with ThreadPoolExecutor() as pool:
        return sorted(answer.result().status_code for answer in [pool.submit(p) for p in presses])


def test_two_presses_at_once_start_one_run(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    end_runs()
    clients, path = [site.client("uma"), site.client("uma")], f"{HOME}/rebalance"
    shown = clients[0].get(path, params={"force": "true"}).text
    to = shown.split('formaction="')[1].split('"')[0]
    sent = {"force": "true", "csrf": token("uma")}
    before = len(dag_runs("rebalance_words"))
    presses = [partial(client.post, to, data=sent) for client in clients]
    assert together(monkeypatch, presses) == [303, 409]
    assert len(dag_runs("rebalance_words")) == before + 1


def test_of_go_on_and_undo_at_once_one_counts(
    site: Site, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    presses = [partial(press, site, "uma", broken, way) for way in ("go_on", "undo")]
    assert together(monkeypatch, presses) == [303, 409]


class Presses:
    """Calls of the store while a press holds the table's row, and searches for a half-moved run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from evenkeel_ui.airflow_runs import stuck

        self.held, self.calls, self.searches = False, list[str](), 0
        lock, search = stuck.one_press, stuck.half_moved

        @contextmanager
        def held(*given: Any) -> Iterator[None]:
            with lock(*given):
                self.held = True
                try:
                    yield
                finally:
                    self.held = False

        def searched(*given: Any) -> Any:
            self.searches += 1
            return search(*given)

        monkeypatch.setattr(stuck, "one_press", held)
        monkeypatch.setattr(stuck, "half_moved", searched)
        for name in ("exists", "names", "stamps", "read", "write", "create"):
            monkeypatch.setattr(Store, name, self._heard(name, getattr(Store, name)))

    def _heard(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def heard(*given: Any) -> Any:
            if self.held:
                self.calls.append(f"{name} {given[1]}")
            return real(*given)

        return heard


def test_no_press_reads_a_store_while_it_holds_the_tables_row(
    site: Site, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's DAG processor waits for that row, and a remote store may take seconds."""
    client = site.client("uma")
    seen = Presses(monkeypatch)

    def pressed(answer: Any, searches: int = 1) -> None:
        assert (answer.status_code, seen.calls, seen.searches) == (303, [], searches), answer.text
        seen.searches = 0

    pressed(press(site, "uma", broken, "go_on"))
    pressed(press(site, "uma", broken, "stop"), 0)
    pressed(press(site, "uma", broken, "undo"))
    end_runs()
    pressed(repair(site, "uma"))
    site.registry.run(broken).remove("migration.json")
    # Each of these shows its form first, which searches, too.
    pressed(start(client, f"{HOME}/rebalance", {"force": "true"}), 2)
    name = folder_name("rebalance_words", dag_runs("rebalance_words")[-1].run_id)
    pressed(press(site, "uma", name, "stop"), 0)  # It notes the plan as refused.
    pressed(start(client, f"{HOME}/rollback", {"epoch": "0"}, sure=True), 2)
    end_runs()


def test_a_table_in_iceberg_has_no_fields_for_commits_of_delta(site: Site) -> None:
    def shown() -> list[str]:
        answer = site.client("uma").get(f"{HOME}/rebalance")
        page = answer.text
        assert answer.status_code == 200 and 'name="budget"' in page
        return [f for f in ("batch", "batch_files", "rate", "rate_rows") if f'name="{f}"' in page]

    assert len(shown()) == 4
    (name, part), *_ = SPEC["state"].items()
    made = {**part, "path": f"lake.db.{name}", "format": "iceberg"}
    Path(site.shop.spec).write_text(yaml.safe_dump({**SPEC, "state": {name: made}}))
    try:
        assert shown() == []
    finally:
        Path(site.shop.spec).write_text(yaml.safe_dump(SPEC))
