"""Copies of Iceberg tables, and sessions that see one of them.

Iceberg's metadata names files by absolute paths. So all copies of a table are at work at one place:
a link, which leads to one of them at a time. No two of them are written to at once, as the jobs on
Iceberg tables have no threads of their own: a job that waits at a point writes nothing meanwhile.
"""

from __future__ import annotations

import re
import time
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.conftest import World
from tests.support.iceberg.catalogs import lake_in

#: Milliseconds of a moment in a file of Iceberg's metadata.
_MOMENT = re.compile(r'("(?:timestamp|last-updated)-ms"\s*:\s*)(\d+)')
#: File of a world with the place where its copies are at work.
_PLACE = "place"


def make_place(folder: Path) -> World:
    """Make the first copy of a table, and the place for it and all others."""
    folder.mkdir(parents=True)
    (folder / _PLACE).write_text(str(folder.with_name("at-work")))
    return World(folder)


def by_place(world: World) -> dict[str, Any]:
    """Return the fields of a spec that have files of a world, as jobs see it: relative paths would
    lead to the copy itself."""
    place = (world.folder / _PLACE).read_text()
    return {
        "registry": f"{place}/registry",
        "input": {"path": f"{place}/events.parquet", "time": "at"},
    }


def at_work(world: World) -> World:
    """Lead the place to this copy, and return it as jobs see it. Delta's copies work anywhere."""
    if not (world.folder / _PLACE).exists():
        return world
    place = Path((world.folder / _PLACE).read_text())
    if world.folder != place:
        link = place.with_name(f".{uuid.uuid4().hex}")
        link.symlink_to(world.folder)
        link.replace(place)
    return World(place)


def let_pass(world: World) -> None:
    """Let time go by until a clock that was ahead is right: Iceberg refuses all commits before the
    moment of the last one. No Delta table needs it."""
    now = time.time() * 1000
    for file in (world.folder / "lake").rglob("*.metadata.json"):
        text = file.read_text()
        if max(int(at) for _, at in _MOMENT.findall(text)) > now:
            file.write_text(_MOMENT.sub(lambda m: f"{m[1]}{min(int(m[2]), int(now))}", text))
            # Hadoop's checksum.
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def opened(spark: SparkSession, world: World) -> tuple[SparkSession, World]:
    """Return a session that has read no Iceberg table yet, as a process of its own, and the table
    as jobs see it. Delta's get what they have."""
    found = at_work(world)
    return (lake_in(spark, found.folder) if found is not world else spark), found
