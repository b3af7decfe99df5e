"""Measure the overview in Airflow's UI, with a thousand tables of three runs each.

Run `python -m benchmarks.pipeline.overview [TABLES]`, or `make bench ARGS=overview`. Each table has
two epochs, and three runs with all their tasks in Airflow's database (SQLite). Five of the newest
runs failed, and five go on. Cold is the first page of a process that has read no table. It reads
tables for as long as one request may, and shows the others as not read yet. All read is the moment
at which an open page, which asks again by itself, has every table. Warm pages follow it.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.many_tables import record_runs, write_tables
from tests.support.plugin_site import Site

#: Warm pages that are measured.
PAGES = 5
#: Tables that a page has not read yet, and seconds after which it asks again.
_UNREAD = re.compile(r"([\d,]+) tables are still being read")
_AGAIN = re.compile(r'data-refresh="(\d+)"')


def timed(client: Any) -> tuple[float, float, str]:
    """Return the seconds of one page, those of CPU, and its text."""
    began, cpu = time.monotonic(), time.process_time()
    text = client.get("/evenkeel/").text
    return time.monotonic() - began, time.process_time() - cpu, text


def unread(text: str) -> int:
    """Return how many tables the page says that it has not read yet."""
    found = _UNREAD.search(text)
    return int(found[1].replace(",", "")) if found else 0


def read_all(client: Any, text: str) -> int:
    """Ask again as an open page does until it has read every table; return the pages asked for."""
    pages = 0
    while unread(text):
        again = _AGAIN.search(text)
        if again is None:
            raise ValueError("the overview has tables not read yet, and does not refresh itself")
        time.sleep(float(again[1]))
        text = timed(client)[-1]
        pages += 1
    return pages


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
        load, nice = os.getloadavg()[0], os.nice(0)
        print(f"{count:,} tables, load {load:.1f}, nice {nice} (less is a higher priority)")
        print("                seconds  CPU s", flush=True)
        began = time.monotonic()
        wall, cpu, text = timed(client)
        print(f"cold            {wall:7.2f} {cpu:6.2f}  {unread(text):,} tables not read yet")
        pages = read_all(client, text)
        wall = time.monotonic() - began
        print(f"all read        {wall:7.2f}         after {pages} more pages", flush=True)
        warm = sorted(timed(client)[:2] for _ in range(PAGES))
        wall, cpu = warm[PAGES // 2]
        print(f"warm, median    {wall:7.2f} {cpu:6.2f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
