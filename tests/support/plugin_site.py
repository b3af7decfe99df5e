"""A table with three epochs and the real Airflow API in front of it, for the plugin's tests."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenkeel.pipeline import steps
from partitioning.function.hashing import key_hash
from partitioning.workload.profile import Profile, profile_of_keys
from tests.support import airflow_env
from tests.support.raw_json import table_moved, write_json
from tests.support.worlds.shop import KEY, Shop

#: A key as bad as they come.
ATTACK = "<script>alert(1)</script>"
USERS = {"ada": "admin", "olga": "op", "uma": "user", "vic": "viewer"}
os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"] = ",".join(
    f"{name}:{role}" for name, role in USERS.items()
)
#: Fixed, as an installation's airflow.cfg fixes them.
os.environ["AIRFLOW__API__SECRET_KEY"] = "a secret of these tests"
os.environ["AIRFLOW__API_AUTH__JWT_SECRET"] = (
    "another secret of these tests, of sixty-four bytes and some more of it"
)


def profile(seed: int, count: int = 300, slots: int = 64, heaviest: float = 1.0) -> Profile:
    """Zipf loads of words; the heaviest word, that many times as heavy, is a script."""
    words = [ATTACK, *(f"word {i}" for i in range(1, count))]
    rng = np.random.default_rng(seed)
    load = 1e4 / np.arange(1, count + 1) * rng.uniform(0.5, 1.5, count)
    load[0] *= heaviest
    made = profile_of_keys(
        KEY,
        key_hash([words], ["string"]),
        load,
        slots,
        state=np.full(count, 5e3),
        threshold=float(np.sort(load)[-40]),
        names=words,
    )
    return replace(made, window=("2013-01-01", "2013-01-29"), events=1000)


class Site:
    """The table `words`, and clients of Airflow's API as its users."""

    def __init__(self, folder: Path) -> None:
        from airflow.api_fastapi.app import create_app

        self.shop = Shop(folder)
        os.environ["EVENKEEL_TABLES"] = str(folder)
        for number in (1, 2):
            self.run(number, max_imbalance=1.005)
        airflow_knows()
        scheduler(alive=True)
        self.app = create_app()

    @property
    def registry(self):  # type: ignore[no-untyped-def]
        return self.shop.registry

    def run(self, number: int, **asked: object) -> str:
        """A whole run, with what Spark jobs would leave of it."""
        name = run_name(number)
        self.learned(number)
        self.shop.plan(name, force=True, **asked)
        steps.validate_plan(self.shop.spec, name)
        folder = self.registry.run(name)
        plan = steps.read_plan(folder)
        moved = table_moved(after=4, rows=9, bytes=round(plan.bytes), seconds=4.0)
        told = {"digest": plan.digest, "epoch": plan.function.epoch, "tables": {"counts": moved}}
        write_json(folder, "migration.json", told)
        self.shop.verified(name)
        steps.report(self.shop.spec, name)
        steps.publish(self.shop.spec, name)
        return name

    def learned(self, number: int) -> str:
        """A run that has learned a profile, and no more."""
        name = run_name(number)
        self.shop.learn(name, profile(number))
        return name

    def client(self, user: str | None = None):  # type: ignore[no-untyped-def]
        """A browser of that user; None: nobody is logged in."""
        from fastapi.testclient import TestClient

        client = TestClient(self.app, follow_redirects=False)
        if user is not None:
            file = airflow_env.HOME / "simple_auth_manager_passwords.json.generated"
            password = json.loads(file.read_text())[user]
            answer = client.post("/auth/token", json={"username": user, "password": password})
            client.cookies.set("_token", answer.json()["access_token"])
        return client


def token(user: str) -> str:
    """What our forms carry for that user, whom no page with a form may let in."""
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    from evenkeel_ui.access import form_token

    return form_token(SimpleAuthManagerUser(username=user, role=USERS[user]))


def scheduler(alive: bool) -> None:
    """Let Airflow have seen its scheduler just now (and for the day to come), or long ago."""
    from airflow.jobs.job import Job
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    with create_session() as session:
        session.execute(delete(Job).where(Job.job_type == "SchedulerJob"))
        beat = datetime.now(UTC) + timedelta(days=1 if alive else -1)
        session.add(Job(job_type="SchedulerJob", state="running", latest_heartbeat=beat))


def end_runs(state: str = "success") -> None:
    """Let every run that goes on end: while one does, no other can be started."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        going = DagRun.state.not_in(["success", "failed"])
        ended = update(DagRun).where(going).values(state=state, end_date=datetime.now(UTC))
        session.execute(ended)


def forget_runs() -> None:
    """Delete every run: those of other tests would be the newest ones of their DAGs."""
    from airflow.models.dagrun import DagRun
    from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    with create_session() as session:
        for kind in (Rendered, TaskInstance, DagRun):
            session.execute(delete(kind))


def start(client: Any, path: str, asked: dict[str, str], sure: bool = False) -> Any:
    """Preview what is asked for, and press the Start button of that very page; runs that went on
    have ended."""
    end_runs()
    shown = client.get(path, params=asked).text
    to = re.search(r'action="([^"]*\?previewed=[^"]*)"', shown)
    token = re.search(r'name="csrf" value="([^"]*)"', shown)
    assert to and token, shown
    more = {"csrf": token[1]} | ({"sure": "yes"} if sure else {})
    return client.post(to[1], data={**asked, **more})


def deny(monkeypatch: pytest.MonkeyPatch, dag: str) -> None:
    """Take every right to that DAG from everybody."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    real = SimpleAuthManager.is_authorized_dag

    def narrow(self, **asked):  # type: ignore[no-untyped-def]
        about = asked["details"].id if asked.get("details") else None
        return about != dag and real(self, **asked)

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", narrow)


def dag_runs(dag: str) -> list[Any]:
    """The runs of a DAG in order."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(select(DagRun).where(DagRun.dag_id == dag)).all()
        return sorted(found, key=lambda run: run.run_after)


def airflow_knows(folder: Path = airflow_env.DAGS) -> None:
    """What Airflow's DAG processor would do with the DAGs of a folder, as they are now.

    New ones are paused; here somebody has turned all of them on.
    """
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    DagBundlesManager().sync_bundles_to_db()
    bag = airflow_env.dag_bag(folder)
    # This function is in the module of the class, and the module moved after Airflow 3.1.
    import_module(type(bag).__module__).sync_bag_to_db(bag, "dags-folder", None)
    with create_session() as session:
        session.query(DagModel).update({"is_paused": False})


def paused(dag: str, value: bool | None = None) -> bool:
    """Whether a DAG is paused; with a value, once it is paused or turned on."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        model = session.get(DagModel, dag)
        assert model is not None
        if value is not None:
            model.is_paused = value
        return bool(model.is_paused)


def run_name(number: int) -> str:
    return f"manual__2013-02-{number:02d}T00-00-00-00-00"


@pytest.fixture(name="site", scope="module")
def made_site(tmp_path_factory: pytest.TempPathFactory, airflow_db: None):  # type: ignore[no-untyped-def]
    before = os.environ["EVENKEEL_TABLES"]
    yield Site(tmp_path_factory.mktemp("site"))
    os.environ["EVENKEEL_TABLES"] = before
