"""DAGs of a table that would undo a way back by themselves, and who may pause them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from sqlalchemy.orm import Session

from evenkeel.spec.table_spec import TableSpec
from evenkeel.watch.forecast import would_act
from evenkeel_ui.access import REBALANCE, WATCH, may, require
from evenkeel_ui.airflow_runs import runs
from partitioning.planning.aims import considered_from
from partitioning.workload.bounds import floor


@dataclass(frozen=True)
class Undoer:
    """A DAG that would undo a way back.

    Parameters
    ----------
    does : what it would do, as a sentence without its full stop
    paused : it does not run by itself; None: Airflow does not know it
    may_pause : the user may pause it
    """

    dag: str
    does: str
    paused: bool | None
    may_pause: bool

    @property
    def offered(self) -> bool:
        """Whether the page offers to pause it."""
        return self.may_pause and not self.paused


def undoers(
    session: Session, user: BaseUser, spec: TableSpec, preview: Mapping[str, Any] | None
) -> list[Undoer]:
    """Return what would undo this way back: the schedule, and the watch by its own rule.

    Parameters
    ----------
    preview : of the way back, with its `plan` and what was `learned`; None: there is none
    """
    if preview is None:
        return []
    found, plan, profile = {}, preview["plan"], preview["learned"].profile
    channels = plan.function.channels
    least = floor(profile, channels, spec.split is not None)
    limit = considered_from(profile, channels, spec.trigger, least)
    if plan.imbalance_after > limit and spec.schedule:
        dag = f"{REBALANCE}{spec.table}"
        found[dag] = f"The next scheduled run of {dag} would undo this way back"
    if would_act(spec, plan.function, profile):
        dag = f"{WATCH}{spec.table}"
        found[dag] = f"On a load like the profile's, {dag} would move keys away within the day"
    return [
        Undoer(dag, does, runs.paused(session, dag), may(user, "PUT", dag))
        for dag, does in found.items()
    ]


def pause_offered(session: Session, user: BaseUser, found: list[Undoer]) -> None:
    """Pause those of the DAGs that the page offers to pause.

    Raises
    ------
    HTTPException : 403, the user may pause none of them
    """
    for one in found:
        if one.offered:
            runs.pause(session, user, one.dag)
    if found and not any(one.may_pause for one in found):
        require(user, "PUT", found[0].dag)
