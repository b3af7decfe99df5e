"""Measure the overview in Airflow's UI, with a thousand tables of three runs each.

Run `python -m benchmarks.pipeline.overview [TABLES]`, or `make bench ARGS=overview`. Each table has
two epochs, and three runs with all their tasks in Airflow's database (SQLite). Five of the newest
runs failed, and five go on. Cold is the first page of a process that has read no table. Warm pages
follow it, once all tables are read.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.many_tables import record_runs, write_tables
from tests.support.plugin_site import Site

#: Warm pages that are measured.
PAGES = 5


def timed(client: Any) -> tuple[float, float, str]:
    """Return the seconds of one page, those of CPU, and its text."""
    began, cpu = time.monotonic(), time.process_time()
    text = client.get("/evenkeel/").text
    return time.monotonic() - began, time.process_time() - cpu, text


def main(count: int) -> None:
    """Make the tables and print what the page takes."""
    from airflow.utils.db import initdb

    initdb()
    with tempfile.TemporaryDirectory() as place:
        shop = Path(place) / "shop"
        shop.mkdir()
        site = Site(shop)
        client = site.client("ada")
        # Imports and templates of the first page are the process's, not the tables'.
        client.get("/evenkeel/")
        folder = Path(place) / "many"
        names = write_tables(folder, site.shop.spec, str(site.registry.url), count)
        newest = dict.fromkeys(names[:5], "failed") | dict.fromkeys(names[5:10], "running")
        record_runs(names, 3, newest)
        os.environ["EVENKEEL_TABLES"] = str(folder)
        print(f"{count:,} tables    seconds  CPU s", flush=True)
        wall, cpu, text = timed(client)
        print(f"cold            {wall:7.2f} {cpu:6.2f}", flush=True)
        while "still being read" in text:
            text = timed(client)[-1]
        warm = sorted(timed(client)[:2] for _ in range(PAGES))
        wall, cpu = warm[PAGES // 2]
        print(f"warm, median    {wall:7.2f} {cpu:6.2f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
