"""Tell people of a plan that waits for approval, and of a gate that failed.

Any notifier of Airflow will do. Its templates find `evenkeel.event` (`approval` or `gate`) and
`evenkeel.text`, one line, beside Airflow's own `dag`, `run_id` and `ti`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel_airflow.operators import AirflowGateError, Approve

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier

log = logging.getLogger(__name__)

#: Event of a notification: a gate failed.
GATE = "gate"


class GateCallback:
    """A callback for a failed task: calls a notifier if a gate failed, and else does nothing."""

    def __init__(self, notifier: BaseNotifier) -> None:
        self.notifier = notifier

    def __call__(self, context: Any) -> None:
        """Call the notifier with the gate's message."""
        error = context.get("exception")
        if isinstance(error, AirflowGateError):
            context["evenkeel"] = {"event": GATE, "text": str(error)}
            self.notifier(context)


class ApprovalCallback:
    """Calls a notifier before a plan waits; a message that cannot be sent stops no plan."""

    def __init__(self, notifier: BaseNotifier) -> None:
        self.notifier = notifier

    def __call__(self, context: Any) -> None:
        """Call the notifier. Airflow guards callbacks of failed tasks like this, and not these."""
        try:
            self.notifier(context)
        except Exception:
            log.exception("nobody was told that a plan waits: the notifier failed")


def attach(notifiers: Sequence[BaseNotifier], tasks: Iterable[Any]) -> None:
    """Let notifiers tell of these tasks' gates, and of plans that wait."""
    for task in tasks:
        if isinstance(task, Approve):
            task.notifiers = [*task.notifiers, *map(ApprovalCallback, notifiers)]
        else:
            own = list(map(GateCallback, notifiers))
            task.on_failure_callback = [*(task.on_failure_callback or ()), *own]
