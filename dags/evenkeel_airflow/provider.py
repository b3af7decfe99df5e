"""What Airflow's `providers` command and its docs show of this package."""

from __future__ import annotations

from typing import Any

from evenkeel import __version__


def get_provider_info() -> dict[str, Any]:
    """Return the metadata that Airflow reads by the entry point `apache_airflow_provider`."""
    return {
        "package-name": "evenkeel",
        "name": "Evenkeel",
        "description": "Keep keyed Delta state evenly spread over channels.",
        "versions": [__version__],
        "integrations": [
            {
                "integration-name": "Evenkeel",
                "external-doc-url": "https://pypi.org/project/evenkeel/",
                "tags": ["software"],
            }
        ],
        "operators": [
            {"integration-name": "Evenkeel", "python-modules": ["evenkeel_airflow.operators"]}
        ],
        "config": {
            "evenkeel": {
                "description": "Evenkeel: where the table specs are.",
                "options": {
                    "tables": {
                        "description": "Folder of the table specs, if EVENKEEL_TABLES is not set.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "/opt/tables",
                        "default": "",
                    }
                },
            }
        },
    }
