"""Random tables of every shape, whose pages are held against their files."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from tests.support.airflow_env import airflow_db  # noqa: F401  a fixture
from tests.support.pages.page_facts import Facts, facts
from tests.support.pages.run_files import Files
from tests.support.pages.whole_runs import SHAPES, whole_run, windows_worked
from tests.support.plugin_site import Site, forget_runs, made_site  # noqa: F401  a fixture
from tests.support.worlds.shop import Shop


class Pages:
    """The pages of a random table, and the files of its newest run.

    Parameters
    ----------
    site : with Airflow's API
    files : of the newest run
    """

    home = "/evenkeel/tables/words"

    def __init__(self, site: Site, files: Files) -> None:
        self.site, self.files, self.shop = site, files, files.shop

    def seen(self, path: str) -> Facts:
        """What a page says; the path is below the table's own, but for the overview."""
        at = "/evenkeel/" if path == "overview" else f"{self.home}{path}"
        answer = self.site.client("vic").get(at)
        assert answer.status_code == 200, answer.text
        return facts(answer.text)


@pytest.fixture(scope="module", params=enumerate(SHAPES, 13), ids=[*SHAPES])
def made(
    site: Site, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pages]:
    """A table of random keys and loads after two runs, in place of the site's."""
    seed, name = request.param
    forget_runs()
    shape, before = SHAPES[name](np.random.default_rng(seed)), os.environ["EVENKEEL_TABLES"]
    shop = Shop(tmp_path_factory.mktemp("shape"), **shape.spec)
    os.environ["EVENKEEL_TABLES"] = str(shop.folder)
    whole_run(shop, 1, 100 + seed, shape)
    run = whole_run(shop, 2, seed, shape)
    windows_worked(shop, seed)
    yield Pages(site, Files.of(shop, run))
    os.environ["EVENKEEL_TABLES"] = before
    forget_runs()
