"""Files that nobody names: what a killed write leaves behind, for maintain to remove."""

from __future__ import annotations

import json
import os
import re
import time
from base64 import b85decode
from pathlib import Path
from uuid import UUID

from pyspark.sql import SparkSession

from evenkeel_spark.jobs.maintain import maintain
from tests.chaos.iceberg.copies import opened
from tests.conftest import World

DAYS = 86400.0
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
#: Delta's own files in a log.
_LOG = re.compile(r"\d{20}(\.checkpoint.*)?\.(json|crc|parquet)|_last_(checkpoint|vacuum_info)")


def leftovers(world: World) -> list[Path]:
    """Files of the state tables that their logs do not name, and the registry's unfinished ones."""
    found = [p for p in (world.folder / "registry").rglob(".*") if p.is_file()]
    if world.table.spec.iceberg:
        # No job looks for files of the table that no snapshot names.
        return sorted(found)
    for part in world.table.spec.state.values():
        root = Path(part.path)
        named = _named(root)
        for file in (p for p in root.rglob("*") if p.is_file()):
            # Hadoop's checksum of a file stands beside it.
            checksum = file.name.startswith(".") and file.name.endswith(".crc")
            own = file.with_name(file.name[1:-4]) if checksum else file
            in_log = own.parent.name == "_delta_log" and _LOG.fullmatch(own.name)
            if not (in_log or str(own.relative_to(root)) in named) or (
                checksum and not own.exists()
            ):
                found.append(file)
    return sorted(found)


def _named(root: Path) -> set[str]:
    """Paths, in the table, of all files that its log has ever named."""
    named = set()
    for log in (root / "_delta_log").glob("*.json"):
        for line in log.read_text().splitlines():
            for action in json.loads(line).values():
                if not (isinstance(action, dict) and "path" in action):
                    continue
                named.add(action["path"])
                vector = action.get("deletionVector")
                if vector and vector["storageType"] == "u":
                    prefix, name = vector["pathOrInlineDv"][:-20], vector["pathOrInlineDv"][-20:]
                    raw = b85decode(name.encode().translate(bytes.maketrans(_Z85, _B85)))
                    file = f"deletion_vector_{UUID(bytes=raw)}.bin"
                    named.add(f"{prefix}/{file}" if prefix else file)
    return named


def age(files: list[Path], days: float) -> None:
    """Make just these files so old."""
    then = time.time() - days * DAYS
    for file in files:
        os.utime(file, (then, then))


def maintain_away(spark: SparkSession, world: World, left: list[Path]) -> None:
    """See that maintain removes files that nobody names, once they are old.

    An UPDATE that empties a file leaves the deletion vector that it did not need: that alone is
    not worth a maintain.
    """
    if any("deletion_vector" not in file.name for file in left):
        age(left, world.table.spec.keep + 1)
        session, at = opened(spark, world)
        maintain(session, at.table)
        left = leftovers(world)
        assert not left, f"maintain leaves files that nobody names: {left}"
