"""Starting what a preview showed where the clock ends the search for a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.plugin_site import (  # noqa: F401  a fixture
    Site,
    dag_runs,
    end_runs,
    made_site,
    profile,
    run_name,
    start,
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
