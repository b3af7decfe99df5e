"""Where specs may reach: below the folders that `EVENKEEL_ROOTS` names, if it is set."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

from partitioning.errors import InputError

VARIABLE = "EVENKEEL_ROOTS"
#: Hadoop's patterns, and those of them of which it is not known here what they come to.
_PATTERN = re.compile(r"[*?\[\]]")
_LEADS_OUT = re.compile(rf"[{{}}\\]|{_PATTERN.pattern}.*/")
#: Hadoop's names for a store that fsspec knows by the first.
_SAME = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "gcs": "gs"}


def check_inside(places: Mapping[str, str], file: str) -> None:
    """Refuse a spec that names a place outside of the roots; anything is inside where none is set.

    Parameters
    ----------
    places : absolute paths and URLs by the spec's field
    file : the spec

    Raises
    ------
    InputError : names the first field that does
    """
    roots = [root.strip() for root in os.environ.get(VARIABLE, "").split(",") if root.strip()]
    inside = [_parts(root) for root in roots]
    for field, place in places.items() if roots else ():
        if _LEADS_OUT.search(place):
            raise InputError(
                f"{field}: has a pattern that may lead anywhere; {VARIABLE} allows * ? [ ] alone, "
                f"in the last part (got {place!r})",
                file,
                "Name one folder",
            )
        for parts in map(_parts, (place, *_matches(place))):
            if not any(parts[: len(root)] == root for root in inside):
                raise InputError(
                    f"{field}: is outside of what {VARIABLE} allows (got {place!r}; allowed: below "
                    f"{', '.join(roots)})",
                    file,
                    "Put it there, or have who runs Evenkeel add its folder",
                )


def _matches(place: str) -> list[str]:
    """What a pattern in the last part comes to on a local disk, where it may be a link."""
    scheme, found, rest = place.partition("://")
    where = Path(rest if found else place)
    if (found and scheme != "file") or not _PATTERN.search(where.name):
        return []
    # Two stars are one to Hadoop.
    return [str(match) for match in where.parent.glob(re.sub(r"\*+", "*", where.name))]


def _parts(place: str) -> tuple[str, ...]:
    """Store and folders of a place, by which one is below another: links followed on local disks,
    `..` taken away."""
    scheme, found, rest = place.partition("://")
    if not found or scheme == "file":
        return ("", *Path(rest if found else place).resolve().parts)
    # What the first part after it is belongs to the store: a bucket, a host.
    bucket, _, path = rest.partition("/")
    folders = posixpath.normpath(f"/{path}").split("/")
    return (_SAME.get(scheme, scheme), bucket, *(f for f in folders if f))
