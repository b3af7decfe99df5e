"""One set of Params by three ways: our form, Airflow's REST API, which its trigger form uses, and
its command line. The same values start the same run, and the same values are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.airflow_env import airflow_db, exception  # noqa: F401  a fixture
from tests.support.plugin_site import Site, dag_runs, made_site, start, token  # noqa: F401  a fixture

pytestmark = pytest.mark.airflow
REBALANCE, ROLL_BACK = "rebalance_words", "roll_back_words"
HOME = "/evenkeel/tables/words"


def by_form(site: Site, dag: str, asked: dict[str, Any]) -> bool:
    """As a browser sends it; whether a run was started."""
    typed = {
        name: " ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in asked.items()
    }
    typed |= {name: "on" for name, value in asked.items() if value is True}
    page = {REBALANCE: "rebalance", ROLL_BACK: "rollback"}[dag]
    client, path = site.client("uma"), f"{HOME}/{page}"
    if client.get(path, params=typed).status_code == 200 and (dag == REBALANCE or typed):
        answer = start(client, path, typed, sure=dag == ROLL_BACK)
    else:
        sure = {} if dag == REBALANCE else {"sure": "yes"}
        answer = client.post(path, data={**typed, **sure, "csrf": token("uma")})
    assert answer.status_code in (303, 404, 422)
    return answer.status_code == 303


def by_rest(site: Site, dag: str, asked: dict[str, Any]) -> bool:
    client = site.client("uma")
    login = {"Authorization": f"Bearer {client.cookies['_token']}"}
    body = {"logical_date": None, "conf": asked}
    answer = client.post(f"/api/v2/dags/{dag}/dagRuns", json=body, headers=login)
    assert answer.status_code in (200, 400, 422)
    return answer.status_code == 200


def by_command(site: Site, dag: str, asked: dict[str, Any]) -> bool:
    from airflow.cli.cli_parser import get_parser

    arguments = get_parser().parse_args(["dags", "trigger", dag, "-c", json.dumps(asked)])
    try:
        arguments.func(arguments)
    except (exception("ParamValidationError"), ValueError) as error:  # ValueError: Airflow 3.2
        if "Invalid input for param" not in str(error):
            raise
        return False
    return True


WAYS: dict[str, Callable[[Site, str, dict[str, Any]], bool]] = {
    "form": by_form,
    "REST": by_rest,
    "command": by_command,
}


def started(site: Site, way: str, dag: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The conf of each run that this way has started."""
    before = {run.id for run in dag_runs(dag)}
    done = WAYS[way](site, dag, asked)
    new = [dict(run.conf) for run in dag_runs(dag) if run.id not in before]
    assert len(new) == done
    return new


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("dag", "asked"),
    [
        (
            REBALANCE,
            {
                "strategy": "readj",
                "channels": 4,
                "capacities": [1.0, 1.0, 2.5, 0.0],
                "max_imbalance": 1.05,
                "budget": 10_000_000,
                "batch": 5000,
                "batch_files": 12,
                "rate": 800,
                "rate_rows": 90,
                "window_end": "2013-02-01",
                "relearn": True,
                "dry_run": True,
                "force": True,
            },
        ),
        (REBALANCE, {"budget": 0, "max_imbalance": 1.0}),
        (REBALANCE, {}),
        (ROLL_BACK, {"epoch": 0, "dry_run": True}),
    ],
)
def test_the_same_values_start_the_same_run(
    site: Site, way: str, dag: str, asked: dict[str, Any]
) -> None:
    assert started(site, way, dag, asked) == [asked]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("dag", "asked"),
    [
        (REBALANCE, {"strategy": "magic"}),
        (REBALANCE, {"strategy": "sia"}),
        (REBALANCE, {"channels": 0}),
        (REBALANCE, {"channels": 100_001}),
        (REBALANCE, {"channels": "many"}),
        (REBALANCE, {"capacities": [1, -1]}),
        (REBALANCE, {"capacities": [0, 0]}),
        (REBALANCE, {"max_imbalance": 0.5}),
        (REBALANCE, {"budget": -1}),
        (REBALANCE, {"budget": "ten"}),
        (REBALANCE, {"batch": 0}),
        (REBALANCE, {"rate": 0}),
        (REBALANCE, {"batch_files": 0}),
        (REBALANCE, {"rate_rows": "ten"}),
        (REBALANCE, {"window_end": "soon"}),
        (REBALANCE, {"window_end": "2013-02-30"}),
        (REBALANCE, {"dry_run": "maybe"}),
        (ROLL_BACK, {"epoch": -1}),
        (ROLL_BACK, {"epoch": "x"}),
        (ROLL_BACK, {"epoch": 0, "dry_run": "maybe"}),
        (ROLL_BACK, {}),
    ],
)
def test_the_same_values_are_refused(site: Site, way: str, dag: str, asked: dict[str, Any]) -> None:
    assert started(site, way, dag, asked) == []
