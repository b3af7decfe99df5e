"""Notifiers hear of a plan that waits and of a gate that fails, and of nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow_env import ROOT, airflow_db, dag_bag  # noqa: F401  a fixture
from tests.support.alerts.receivers import mail_receiver

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
from evenkeel_airflow.airflow_versions import AirflowFailException
from evenkeel_airflow.notifiers import GateCallback
from evenkeel_airflow.operators import AirflowGateError, one_line
from partitioning.errors import GateError, InputError
from tests.support.worlds.shop import Shop
# isort: on

pytestmark = pytest.mark.airflow

FILE = """# An Airflow DAG file.
from pathlib import Path
from airflow.sdk import BaseNotifier
from evenkeel_airflow import load_tables


class Note(BaseNotifier):
    template_fields = ("line",)

    def __init__(self, line):
        super().__init__()
        self.line = line

    def notify(self, context):
        with Path({told!r}).open("a") as file:
            file.write(self.line + "\\n")


note = Note("{{{{ evenkeel.event }}}} {{{{ run_id }}}}: {{{{ evenkeel.text }}}}")
load_tables(globals(), {folder!r}, notifiers=[note])
"""


class Told:
    """A DAG file whose notifier writes a line to a file."""

    def __init__(self, folder: Path) -> None:
        self.shop, self.file = Shop(folder), folder / "told"
        dags = folder / "dags"
        dags.mkdir()
        (dags / "tables.py").write_text(FILE.format(told=str(self.file), folder=str(folder)))
        bag = dag_bag(dags)
        assert bag.import_errors == {}
        self.dag = bag.dags["rebalance_words"]

    @property
    def lines(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []


@pytest.fixture
def told(airflow_db: None, tmp_path: Path) -> Told:  # noqa: F811
    return Told(tmp_path)


def test_a_plan_that_waits_is_told(told: Told) -> None:
    """In a whole task of Airflow, up to where it waits; then a plan under the limit."""
    shop = told.shop
    name = "rebalance_words--r"
    shop.learn(name)
    shop.plan(name, force=True)
    told.dag.get_task("approve").execute({"run_id": "r", "params": {}})
    assert told.lines == []
    shop.respec(approve_over=0)
    _asks(told.dag.get_task("approve"), told.dag)
    (line,) = told.lines
    assert line.startswith("approval r: words: move ") and line.endswith(" for epoch 1?")


def test_a_message_that_cannot_be_sent_stops_no_plan(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    told.shop.learn("rebalance_words--r")
    told.shop.plan("rebalance_words--r", force=True)
    told.shop.respec(approve_over=0)
    told.file.mkdir()
    _asks(told.dag.get_task("approve"), told.dag)
    assert "nobody was told that a plan waits: the notifier failed" in caplog.text


def _asks(task: Any, dag: Any) -> None:
    from unittest.mock import Mock

    from airflow.providers.standard.operators import hitl

    from tests.support.airflow_env import question

    ti = Mock(map_index=-1)
    context = {
        "run_id": "r", "params": {}, "task_instance": ti, "ti": ti, "task": task, "dag": dag,
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        # The API server would write the question down.
        patch.setattr(hitl, "upsert_hitl_detail", lambda **_: None)
        with pytest.raises(question()):
            task.execute(context)


def test_a_gate_that_fails_is_told_and_other_failures_are_not(told: Told) -> None:
    for error, kind in (
        (GateError("plan: 2 of 9 failed"), AirflowGateError),
        (InputError("no"), None),
    ):
        with pytest.raises(AirflowFailException) as caught, one_line():
            raise error
        assert (type(caught.value) is AirflowGateError) == (kind is AirflowGateError)
        for name in ("validate_plan", "verify"):
            task = told.dag.get_task(name)
            (callback,) = task.on_failure_callback
            assert isinstance(callback, GateCallback)
            callback({"exception": caught.value, "run_id": "r", "dag": told.dag})
    assert told.lines == ["gate r: plan: 2 of 9 failed"] * 2


def test_mail_comes_by_the_line_of_the_page(
    airflow_db: None,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = (ROOT / "docs/how-to/operate/alerts.md").read_text()
    (notifier,) = re.findall(r"SmtpNotifier\([^)]*\)", page)
    Shop(tmp_path)
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "tables.py").write_text(
        "# An Airflow DAG file.\n"
        "from airflow.providers.smtp.notifications.smtp import SmtpNotifier\n"
        "from evenkeel_airflow import load_tables\n"
        f"load_tables(globals(), {str(tmp_path)!r}, notifiers=[{notifier}])\n"
    )
    bag = dag_bag(dags)
    assert bag.import_errors == {}
    dag = bag.dags["rebalance_words"]
    (callback,) = dag.get_task("verify").on_failure_callback
    with pytest.raises(AirflowFailException) as caught, one_line():
        raise GateError("plan: 2 of 9 failed")
    with mail_receiver() as (port, heard):
        server = {"conn_type": "smtp", "host": "127.0.0.1", "port": port}
        plain = {"disable_ssl": True, "disable_tls": True, "from_email": "evenkeel@example.org"}
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps({**server, "extra": plain}))
        callback({"exception": caught.value, "run_id": "r", "dag": dag})
    (mail,) = heard
    assert mail["to"] == "data@example.org" and mail["subject"] == "plan: 2 of 9 failed"
    assert mail.get_body().get_content().strip() == "r"
