"""A repair that a person starts from a table's page."""

from __future__ import annotations

from typing import Any

from tests.support.plugin_site import (
    Site,
    token,
)

HOME = "/evenkeel/tables/words"


def press(site: Site, user: str, dry_run: str = "") -> Any:
    data = {"csrf": token(user), "dry_run": dry_run}
    return site.client(user).post(f"{HOME}/repair", data=data)
