"""Client for the parts of Airflow's REST API that `make up` and its tests use."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from partitioning.errors import EvenkeelError

#: Seconds that one request may take, and seconds between two looks at a run.
TIMEOUT, PAUSE = 30, 2.0


class ApiError(EvenkeelError):
    """A request to Airflow failed; `status` is the HTTP code, 0 if there was no answer."""

    exit_code = 1

    def __init__(self, status: int, said: str, where: str) -> None:
        super().__init__(f"Airflow answered {status or 'nothing'}: {said[:300]}", where)
        self.status = status

    @property
    def passing(self) -> bool:
        """Whether the server may answer later: it was slow, away, or busy."""
        return self.status == 0 or self.status >= 500


class Api:
    """Client of the Airflow at `url`, logged in as `user`, or not logged in if that is None."""

    def __init__(self, url: str, user: str | None = None, password: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._token: str | None = None
        if user is not None:
            login = {"username": user, "password": password}
            self._token = self.call("POST", "/auth/token", login)["access_token"]

    def call(self, method: str, path: str, value: Any = None) -> Any:
        """Send a request, and return the JSON of the answer.

        Raises
        ------
        ApiError : the answer is not a 2xx, or there is none
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
            # Never through a proxy, because the server is on this machine.
            with _DIRECT.open(request, timeout=TIMEOUT) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")
            raise ApiError(error.code, said, f"{method} {self.url}{path}") from None
        except (OSError, ValueError) as error:
            raise ApiError(0, str(error), f"{method} {self.url}{path}") from None
        return json.loads(body) if body else None

    def get(self, path: str) -> Any:
        """Send a GET request; errors are those of `call`."""
        return self.call("GET", path)

    def dags(self) -> list[str]:
        """Return the ids of the DAGs that Airflow has parsed."""
        return [d["dag_id"] for d in self.get("/api/v2/dags?limit=500")["dags"]]

    def runs(self, dag: str) -> list[dict[str, Any]]:
        """Return the runs of a DAG, newest first."""
        found = self.get(f"/api/v2/dags/{dag}/dagRuns?limit=100&order_by=-id")
        return list(found["dag_runs"])

    def trigger(self, dag: str, **params: Any) -> str:
        """Start a run, and return its id."""
        asked = {"logical_date": None, "conf": params}
        return str(self.call("POST", f"/api/v2/dags/{dag}/dagRuns", asked)["dag_run_id"])

    def state(self, dag: str, run: str) -> str:
        """Return the state of a run: queued, running, success or failed."""
        return str(self.get(f"/api/v2/dags/{dag}/dagRuns/{urllib.parse.quote(run)}")["state"])

    def tasks(self, dag: str, run: str) -> dict[str, str | None]:
        """Return task id -> state for a run."""
        path = f"/api/v2/dags/{dag}/dagRuns/{urllib.parse.quote(run)}/taskInstances"
        return {t["task_id"]: t["state"] for t in self.get(path)["task_instances"]}

    def wait(self, dag: str, run: str, seconds: float) -> str:
        """Wait until a run ends or `seconds` are over, and return its state."""
        until = time.monotonic() + seconds
        while (state := self.state(dag, run)) in ("queued", "running"):
            if time.monotonic() > until:
                break
            time.sleep(PAUSE)
        return state


_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
