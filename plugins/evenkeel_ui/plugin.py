"""Register the pages with Airflow. Workers load this too, so the app is imported only on use."""

from __future__ import annotations

import logging
import sys
from typing import Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

PREFIX = "/evenkeel"
#: Path of the pages for a browser. Behind a proxy, Airflow may be under a path.
HOME = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/") + PREFIX


class EvenkeelPlugin(AirflowPlugin):
    """The app at /evenkeel, an entry in the navigation, and a tab on DAGs, runs and tasks."""

    name = "evenkeel"
    # Airflow shows the tabs on every DAG. On a DAG that is not ours, the page says so.
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
        """Return the app, or none if it cannot be imported; only the API server asks for it."""
        try:
            from evenkeel.extras import check_release

            check_release("apache-airflow")
            from evenkeel_ui.app import app
        except Exception as error:
            # Raised here, it would stop the API server, and so all of Airflow.
            what = " ".join(f"{type(error).__name__}: {error}".split())
            logging.getLogger(__name__).error("Airflow starts without Evenkeel's pages: %s", what)
            return []
        return [{"app": app, "url_prefix": PREFIX, "name": "Evenkeel"}]


# Airflow finds the plugin by the file `evenkeel_plugin.py` in its plugins folder, and by the entry
# point of the installed package (twice if it is editable). A second copy would be an import error
# on Airflow's Plugins page, so only the first is given.
_given = False


def __getattr__(name: str) -> Any:
    """Return `installed` for the entry point: the plugin, or None if Airflow already has it."""
    global _given
    if name != "installed":
        raise AttributeError(name)
    there, _given = _given or "evenkeel_plugin" in sys.modules, True
    return None if there else EvenkeelPlugin
