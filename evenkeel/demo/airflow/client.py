"""Airflow's REST API, as far as `make up` and its tests speak it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from partitioning.errors import EvenkeelError

#: How long one request may take, and how often a run is asked after, in seconds.
TIMEOUT, PAUSE = 30, 2.0


class ApiError(EvenkeelError):
    """Airflow did not do what it was asked; `status` is its HTTP code, 0 where nobody answered."""

    exit_code = 1

    def __init__(self, status: int, said: str, where: str) -> None:
        super().__init__(f"Airflow answered {status or 'nothing'}: {said[:300]}", where)
        self.status = status


class Api:
    """A user of the Airflow at `url`; with no user, one who has not logged in."""

    def __init__(self, url: str, user: str | None = None, password: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._token: str | None = None
        if user is not None:
            login = {"username": user, "password": password}
            self._token = self.call("POST", "/auth/token", login)["access_token"]

    def call(self, method: str, path: str, value: Any = None) -> Any:
        """The JSON that comes back.

        Raises
        ------
        ApiError : any answer that is not a 2xx, or none
        """
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if value is None else json.dumps(value).encode(),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
        )
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            # Never through a proxy: it is this machine.
            with _DIRECT.open(request, timeout=TIMEOUT) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")
            raise ApiError(error.code, said, f"{method} {self.url}{path}") from None
        except (OSError, ValueError) as error:
            raise ApiError(0, str(error), f"{method} {self.url}{path}") from None
        return json.loads(body) if body else None

    def get(self, path: str) -> Any:
        """GET; errors as for `call`."""
        return self.call("GET", path)

    def dags(self) -> list[str]:
        """Names of the DAGs that were parsed."""
        return [d["dag_id"] for d in self.get("/api/v2/dags?limit=500")["dags"]]

    def runs(self, dag: str) -> list[dict[str, Any]]:
        """Runs of a DAG, newest first."""
        found = self.get(f"/api/v2/dags/{dag}/dagRuns?limit=100&order_by=-id")
        return list(found["dag_runs"])

    def trigger(self, dag: str, **params: Any) -> str:
        """Start a run; returns its id."""
        asked = {"logical_date": None, "conf": params}
        return str(self.call("POST", f"/api/v2/dags/{dag}/dagRuns", asked)["dag_run_id"])

    def state(self, dag: str, run: str) -> str:
        """Of a run: queued, running, success or failed."""
        return str(self.get(f"/api/v2/dags/{dag}/dagRuns/{urllib.parse.quote(run)}")["state"])

    def tasks(self, dag: str, run: str) -> dict[str, str | None]:
        """State of each task of a run."""
        path = f"/api/v2/dags/{dag}/dagRuns/{urllib.parse.quote(run)}/taskInstances"
        return {t["task_id"]: t["state"] for t in self.get(path)["task_instances"]}

    def wait(self, dag: str, run: str, seconds: float) -> str:
        """The state in which a run ended, or that it has when the time is over."""
        until = time.monotonic() + seconds
        while (state := self.state(dag, run)) in ("queued", "running"):
            if time.monotonic() > until:
                break
            time.sleep(PAUSE)
        return state


_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
