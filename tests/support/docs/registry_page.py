"""Files that code has written, held against the pages of the registry's files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from partitioning.workload.profile import Profile, Sketch
from setup.docs.reference.registry import arrays, places


def unlisted(registry: Path) -> list[str]:
    """Files of a registry that the page does not list, and arrays that it does not list so."""
    listed = [re.sub(r"[A-Z]+", "[^/]+", re.escape(place)) for place in places()]
    files = [f for f in registry.rglob("*") if f.is_file()]
    assert len(files) > 20
    names = [f.relative_to(registry).as_posix() for f in files]
    known = {kind: {tuple(row[:2]) for row in arrays(kind)} for kind in (Profile, Sketch)}
    packed = [f for f in files if f.suffix == ".npz"]
    assert {f.stem == "profile" for f in packed} == {True, False}
    return [
        *(name for name in names if not any(re.fullmatch(p, name) for p in listed)),
        *(
            f"{file.name}: {name} ({kind})"
            for file in packed
            for name, kind in _arrays(file)
            if (f"`{name}`", kind) not in known[Profile if file.stem == "profile" else Sketch]
        ),
    ]


def _arrays(file: Path) -> Iterator[tuple[str, str]]:
    with np.load(file) as found:
        for name, values in found.items():
            yield name, "text" if values.dtype.kind == "U" else str(values.dtype)
