"""Pages of a table while a run moves its rows."""

from __future__ import annotations

import re

import pytest

from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.failed_runs import HOME, press
from tests.support.plugin_site import Site, end_runs, made_site  # noqa: F401  a fixture

pytestmark = pytest.mark.airflow


def test_checks_before_the_move_are_not_shown_in_green(
    site: Site, alone: None, broken: str
) -> None:
    def green(path: str) -> bool:
        text = site.client("uma").get(path).text
        assert "checks passed" in text, path
        found = re.search(r'badge good">\w+ checks passed', text) is not None
        assert ("checks passed before the move" in text) != found, path
        return found

    for path in ("/evenkeel/", HOME):
        assert not green(path), path
    # Nor while its run goes on.
    assert press(site, "uma", broken, "undo").status_code == 303
    for path in ("/evenkeel/", HOME):
        assert not green(path), path
    end_runs()
    site.registry.run(broken).remove("migration.json")
    for path in ("/evenkeel/", HOME):
        assert green(path), path
