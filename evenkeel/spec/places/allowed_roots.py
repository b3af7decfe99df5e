"""The folders that specs may name: those below `EVENKEEL_ROOTS`, if it is set."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

from partitioning.errors import InputError

#: Places that paths of specs may be in, separated by commas. Default: anywhere.
ROOTS_VARIABLE = "EVENKEEL_ROOTS"
#: Hadoop's glob characters, and the patterns that cannot be resolved here.
_PATTERN = re.compile(r"[*?\[\]]")
_LEADS_OUT = re.compile(rf"[{{}}\\]|{_PATTERN.pattern}.*/")
#: Hadoop's names of stores, and fsspec's name for the same store.
_SAME = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "gcs": "gs"}


def check_inside(places: Mapping[str, str], file: str) -> None:
    """Refuse a spec that names a place outside of the allowed roots. No root set: allow any place.

    Parameters
    ----------
    places : absolute paths and URLs by the spec's field
    file : the spec, for the error

    Raises
    ------
    InputError : names the first field whose place is outside, and the allowed roots
    """
    roots = [root.strip() for root in os.environ.get(ROOTS_VARIABLE, "").split(",") if root.strip()]
    inside = [place_parts(root) for root in roots]
    for field, place in places.items() if roots else ():
        if _LEADS_OUT.search(place):
            raise InputError(
                f"{field}: has a pattern that may match anything; {ROOTS_VARIABLE} allows "
                f"only * ? [ ], and only in the last part (got {place!r})",
                file,
                "Name one folder",
            )
        for parts in map(place_parts, (place, *_matches(place))):
            if not any(parts[: len(root)] == root for root in inside):
                raise InputError(
                    f"{field}: is outside of what {ROOTS_VARIABLE} allows (got {place!r}; "
                    f"allowed: below {', '.join(roots)})",
                    file,
                    "Move it there, or ask the operator of Evenkeel to add its folder",
                )


def _matches(place: str) -> list[str]:
    """List local files that match a pattern in the last part, because a match may be a link."""
    scheme, found, rest = place.partition("://")
    where = Path(rest if found else place)
    if (found and scheme != "file") or not _PATTERN.search(where.name):
        return []
    # Hadoop reads two stars as one.
    return [str(match) for match in where.parent.glob(re.sub(r"\*+", "*", where.name))]


def place_parts(place: str, links: bool = True) -> tuple[str, ...]:
    """Split a place into its store and folders, so that prefixes can be compared.

    Resolves `..`.

    Parameters
    ----------
    place : an absolute path, or a URL
    links : whether to follow links on local disks
    """
    scheme, found, rest = place.partition("://")
    if not found or scheme == "file":
        path = rest if found else place
        # Path.resolve raises where a link leads to itself, and one such spec would end the others.
        return ("", *Path((os.path.realpath if links else posixpath.normpath)(path)).parts)
    # The first part after the scheme names the store: a bucket or a host.
    bucket, _, path = rest.partition("/")
    folders = posixpath.normpath(f"/{path}").split("/")
    return (_SAME.get(scheme, scheme), bucket, *(f for f in folders if f))
