"""How long snapshots of an Iceberg table stay readable."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

#: Snapshots that stay whatever their age.
KEPT_SNAPSHOTS = 2
_LEAST_KEPT = "history.expire.min-snapshots-to-keep"
_MAX_AGE = "history.expire.max-snapshot-age-ms"
#: Days of a longer age, such as one that means for ever: a date so far ahead can be written.
MOST_DAYS = 36_500
#: Not `true`: no file may be removed, because other catalogs or branches may name it.
COLLECTED = "gc.enabled"


def kept_for(properties: Mapping[str, str], days: int) -> timedelta | None:
    """Return for how long snapshots stay at least; None: for ever.

    Parameters
    ----------
    properties : of the table, which may ask for more than the spec
    days : that the spec keeps versions
    """
    if properties.get(COLLECTED, "true").lower() != "true":
        return None
    asked = min(int(properties.get(_MAX_AGE, 0)), MOST_DAYS * 86_400_000)
    return max(timedelta(milliseconds=asked), timedelta(days=days))


def newest_kept(properties: Mapping[str, str]) -> int:
    """Return how many of the newest snapshots stay whatever their age."""
    return max(KEPT_SNAPSHOTS, int(properties.get(_LEAST_KEPT, 1)))
