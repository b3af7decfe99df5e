"""Tells Airflow of the pages. Workers load this too: the app is imported when it is asked for."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

PREFIX = "/evenkeel"
#: Where pages are for a browser: behind a proxy, Airflow may stand under a path.
HOME = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/") + PREFIX


class EvenkeelPlugin(AirflowPlugin):
    """The app at /evenkeel, an entry in the navigation, and a tab on DAGs, runs and tasks."""

    name = "evenkeel"
    # The tabs are shown on every DAG; on one that is not ours the page says so.
    external_views = [  # noqa: RUF012
        {"name": "Evenkeel", "href": f"{HOME}/", "destination": "nav", "url_route": "evenkeel"},
        {
            "name": "Evenkeel",
            "href": f"{HOME}/dags/{{DAG_ID}}",
            "destination": "dag",
            "url_route": "evenkeel-table",
        },
        {
            "name": "Evenkeel",
            "href": f"{HOME}/dags/{{DAG_ID}}/runs/{{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "evenkeel-run",
        },
        {
            "name": "Evenkeel",
            "href": f"{HOME}/dags/{{DAG_ID}}/runs/{{RUN_ID}}/tasks/{{TASK_ID}}",
            "destination": "task_instance",
            "url_route": "evenkeel-task",
        },
    ]

    @property
    def fastapi_apps(self) -> list[Any]:  # type: ignore[override]
        """Asked for by the API server alone."""
        from evenkeel_ui.app import app

        return [{"app": app, "url_prefix": PREFIX, "name": "Evenkeel"}]


# Airflow finds the plugin in its plugins folder, by the file `evenkeel_plugin.py`, and by the entry
# point of the installed package (of an editable one twice). A plugin that is found again is an
# import error on Airflow's Plugins page: so it is given once.
_given = False


def __getattr__(name: str) -> Any:
    """`installed`, for the entry point: the plugin, or None where Airflow has it already."""
    global _given
    if name != "installed":
        raise AttributeError(name)
    there, _given = _given or "evenkeel_plugin" in sys.modules, True
    return None if there else EvenkeelPlugin
