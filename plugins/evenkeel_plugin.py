"""Tells Airflow of the pages. Workers load this too: the app is imported when it is asked for."""

from __future__ import annotations

import sys
from typing import Any

from airflow.plugins_manager import AirflowPlugin

PREFIX = "/evenkeel"


class EvenkeelPlugin(AirflowPlugin):
    """The app at /evenkeel, an entry in the navigation, and a tab on DAGs, runs and tasks."""

    name = "evenkeel"
    # The tabs are shown on every DAG; on one that is not ours the page says so.
    external_views = [  # noqa: RUF012
        {"name": "Evenkeel", "href": f"{PREFIX}/", "destination": "nav", "url_route": "evenkeel"},
        {
            "name": "Evenkeel",
            "href": f"{PREFIX}/dags/{{DAG_ID}}",
            "destination": "dag",
            "url_route": "evenkeel-table",
        },
        {
            "name": "Evenkeel",
            "href": f"{PREFIX}/dags/{{DAG_ID}}/runs/{{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "evenkeel-run",
        },
        {
            "name": "Evenkeel",
            "href": f"{PREFIX}/dags/{{DAG_ID}}/runs/{{RUN_ID}}/tasks/{{TASK_ID}}",
            "destination": "task_instance",
            "url_route": "evenkeel-task",
        },
    ]

    @property
    def fastapi_apps(self) -> list[Any]:  # type: ignore[override]
        """Asked for by the API server alone."""
        from plugins.app import app

        return [{"app": app, "url_prefix": PREFIX, "name": "Evenkeel"}]


# Airflow finds the plugin in its plugins folder, where this file is a module of its own name, and
# by the installed package's entry point. Where it has done the former, the latter gives nothing:
# a plugin that is registered twice is an import error on Airflow's Plugins page.
installed = None if "evenkeel_plugin" in sys.modules else EvenkeelPlugin
