"""Measure the overview of a thousand tables: `python -m tests.support.many_tables [COUNT]`.

It makes that many tables, each with two epochs, and prints the seconds of the page. Cold is the
first page of a process that has read nothing. Warm pages follow it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import yaml

from tests.support import airflow_env  # noqa: F401  sets Airflow's home before it is imported


def made(site_folder: Path, spec_file: str, registry: str, count: int) -> Path:
    """Return a folder with the specs of `count` tables, each with a copy of the registry."""
    folder = site_folder / "many"
    folder.mkdir()
    spec = yaml.safe_load(Path(spec_file).read_text())
    for number in range(count):
        place = folder / f"files{number}"
        shutil.copytree(registry.removeprefix("file://"), place / "registry")
        state = {n: {**s, "path": str(place / n)} for n, s in spec["state"].items()}
        own = {**spec, "table": f"t{number}", "registry": str(place / "registry"), "state": state}
        (folder / f"t{number}.yaml").write_text(yaml.safe_dump(own))
    return folder


def main(count: int) -> None:
    """Make the tables and print what the page takes."""
    from airflow.utils.db import initdb

    from tests.support.plugin_site import Site

    initdb()
    with tempfile.TemporaryDirectory() as place:
        site = Site(Path(place))
        client = site.client("ada")
        client.get("/evenkeel/")
        folder = made(Path(place), site.shop.spec, str(site.registry.url), count)
        os.environ["EVENKEEL_TABLES"] = str(folder)
        for name in ("cold", *["warm"] * 4):
            began = time.monotonic()
            text = client.get("/evenkeel/").text
            left = "still being read" in text
            print(f"{name}: {time.monotonic() - began:.2f} s, {text.count('>t')} rows; {left=}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
