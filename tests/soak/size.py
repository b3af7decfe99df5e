"""The stated size of the registry and the state tables of the year."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import World

#: Bytes of a state table's folder, with its log, after maintain: some 20 days of rewritten files.
MAX_STATE = 12_000_000
#: Bytes of the registry after maintain: what stays of an epoch, and all that goes.
EPOCH, REST = 40_000, 2_000_000


def above(world: World) -> str | None:
    """Which folder is larger than stated, in words; None: none is."""
    epochs = len(world.table.registry.numbers())
    folders = [(Path(part.path), MAX_STATE) for part in world.table.spec.state.values()]
    folders.append((world.folder / "registry", REST + epochs * EPOCH))
    for folder, most in folders:
        found = size(folder)
        if found > most:
            return f"{folder} has {found:,} bytes, more than the {most:,} that are stated"
    return None


def size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
