"""What a page has previewed: a stamp that its Start button sends back, and that must fit.

Start posts the fields as they stand on the screen. The stamp says which values and which plan the
page showed below them. Nothing starts where they differ, so a form that was changed after its
preview starts nothing, with JavaScript or without.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from partitioning.function.function import canonical_json
from partitioning.planning.plan import Plan

#: Characters of each digest in a stamp: two of one user's previews never share so many.
DIGITS = 16
_NONE = "none"
_UNSEEN = (
    "Nothing was started: no preview is possible here, so only a dry run may start. It learns a "
    "profile and shows what would move."
)


def stamp(asked: Mapping[str, Any], plan: Plan | None) -> str:
    """Return the stamp of a preview: a digest of the values asked for, and one of the plan shown.

    Parameters
    ----------
    asked : what the run would be started with, as JSON holds it
    plan : None: the page could show none
    """
    values = hashlib.sha256(canonical_json(dict(asked))).hexdigest()[:DIGITS]
    return f"{values}-{plan.digest[:DIGITS] if plan else _NONE}"


def mismatch(sent: str, asked: Mapping[str, Any], plan: Plan | None, dry_run: bool) -> str | None:
    """Return why these values must not start, though `sent` came with them; None: they may.

    Parameters
    ----------
    sent : the stamp of the page that was looked at; "" where none came
    asked, plan : as for `stamp`, as they are now
    dry_run : the run would move nothing
    """
    if plan is None and not dry_run:
        return _UNSEEN
    now = stamp(asked, plan)
    if sent == now:
        return None
    if sent.split("-")[0] == now.split("-")[0]:
        return (
            "Nothing was started: the table has another epoch or a newer profile since you looked "
            "at the preview. The preview is new now: read it, then start."
        )
    return (
        "Nothing was started: these values are not the ones that were previewed. The preview is "
        "new now: read it, then start."
    )
