"""The stamp of a preview: a page's Start button sends it back, and it must fit.

Start posts the fields as they stand on the screen. The stamp says which values and which plan the
page showed below them. Nothing starts where they differ, so a form that was changed after its
preview starts nothing, with JavaScript or without.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from evenkeel.spec.table_spec import TableSpec
from partitioning.function.canonical import canonical_json
from partitioning.planning.plan import Plan
from partitioning.workload.profile import Profile

#: Characters of each digest in a stamp: two of one user's previews never share so many.
DIGEST_CHARACTERS = 16
_NONE = "none"
_UNSEEN = (
    "Nothing was started: no preview is possible here, so only a dry run may start. It learns a "
    "profile and shows what would move."
)


def identity(spec: TableSpec, plan: Plan, profile: Profile) -> str:
    """Return the digest of a previewed plan, or of what it is made from.

    If the spec sets `seconds`, the clock ends the search. Then two plans made from the same
    epoch and profile may differ, so these two stand for the plan.
    """
    if spec.options.get("seconds") is None:
        return plan.digest
    return hashlib.sha256(plan.parent_digest.encode() + profile.to_bytes()).hexdigest()


def stamp(asked: Mapping[str, Any], shown: str | None) -> str:
    """Return the stamp of a preview: a digest of the values asked for, and one of the plan shown.

    Parameters
    ----------
    asked : what the run would be started with, as JSON holds it
    shown : `identity` of the plan; None: the page could show none
    """
    values = hashlib.sha256(canonical_json(dict(asked))).hexdigest()[:DIGEST_CHARACTERS]
    return f"{values}-{shown[:DIGEST_CHARACTERS] if shown else _NONE}"


def mismatch(sent: str, asked: Mapping[str, Any], shown: str | None, dry_run: bool) -> str | None:
    """Return why these values must not start, though `sent` came with them; None: they may.

    Parameters
    ----------
    sent : the stamp of the page that was looked at; "" where none came
    asked, shown : as for `stamp`, as they are now
    dry_run : the run would move nothing
    """
    if shown is None and not dry_run:
        return _UNSEEN
    now = stamp(asked, shown)
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
