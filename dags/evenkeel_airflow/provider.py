"""What Airflow's `providers` command and its docs show of this package."""

from __future__ import annotations

from typing import Any
from urllib.parse import SplitResult

from evenkeel import __version__


def get_provider_info() -> dict[str, Any]:
    """Return the metadata that Airflow reads by the entry point `apache_airflow_provider`."""
    return {
        "package-name": "evenkeel",
        "name": "Evenkeel",
        "description": "Keep keyed Delta state evenly spread over channels.",
        "versions": [__version__],
        "integrations": [
            # No "external-doc-url": PyPI has another project of this name.
            {"integration-name": "Evenkeel", "tags": ["software"]}
        ],
        "operators": [
            {"integration-name": "Evenkeel", "python-modules": ["evenkeel_airflow.operators"]}
        ],
        "asset-uris": [
            {"schemes": ["evenkeel"], "handler": "evenkeel_airflow.provider.check_asset_uri"}
        ],
        # No "plugins": the entry point `airflow.plugins` brings the pages. Airflow would load them
        # here a second time, which its Plugins page shows as an error, and never as an instance.
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


def check_asset_uri(uri: SplitResult) -> SplitResult:
    """Refuse an address that no table updates; Airflow calls this for each `evenkeel://` asset.

    Raises
    ------
    ValueError : it is not `evenkeel://TABLE`
    """
    if not uri.netloc or uri.path.strip("/") or uri.query:
        raise ValueError(
            f"expected evenkeel://TABLE, got {uri.geturl()}. Put nothing after the table's name"
        )
    return uri
