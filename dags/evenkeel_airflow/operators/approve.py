"""A plan passes if it is small; otherwise a person is asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.exceptions import AirflowException
from airflow.providers.standard.operators.hitl import ApprovalOperator

from evenkeel_airflow.airflow_versions import AirflowFailException, AirflowSkipException
from evenkeel_airflow.operators.defaults import with_retries
from evenkeel_airflow.operators.runs import one_line, run_name

#: Event of a notification: a plan waits for a person's answer.
APPROVAL = "approval"


class Approve(ApprovalOperator):
    """Let a plan pass if it moves less than the spec's limit; otherwise ask a person.

    A retry asks again. An answer that was lost, by a scheduler or a store that was down, does not
    count. If nobody answers in time, the task fails at once.

    Parameters
    ----------
    spec : path of the table's spec; a template
    response_timeout : how long a person may take to answer; None: for ever
    """

    template_fields = (*ApprovalOperator.template_fields, "spec")

    def __init__(
        self, *, spec: str, response_timeout: timedelta | None = None, **kwargs: Any
    ) -> None:
        super().__init__(subject="Move state?", **with_retries(kwargs))
        # Airflow makes one of `execution_timeout`, which is meant for jobs: nothing moves here.
        self.response_timeout = response_timeout
        self.spec = spec

    def execute(self, context: Any) -> Any:
        """Let the plan pass, ask a person, or skip; a dry run ends here."""
        from evenkeel.pipeline import approval

        if context["params"].get("dry_run"):
            raise AirflowSkipException("dry run: nothing moves")
        with one_line():
            run = run_name(self.spec, self.dag_id, context["run_id"])
            request = approval.request(self.spec, run)
            if request is None:
                by = approval.passed_by(self.spec, run)
                self.log.info("Approved by %s: nobody is asked", by)
                self._record(context, True, by, datetime.now(UTC), asked=False)
                return None
            approval.ask(self.spec, run, request.digest)
        self.subject, self.body = request.subject, request.body
        # For the templates of notifiers.
        context["evenkeel"] = {"event": APPROVAL, "text": request.subject}
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Record the answer; a refused plan skips the later tasks, and the run succeeds."""
        if event.get("error_type") == "timeout":
            # As a refusal: the watch would wait for ever for a plan that may still be carried out.
            try:
                with one_line():
                    self._record(context, False, "the time limit", datetime.now(UTC), asked=True)
            except AirflowException as error:
                self.log.warning("The time limit is not noted as a refusal: %s", error)
            # A retry would ask again, for as long.
            raise AirflowFailException(
                f"nobody has answered in {self.response_timeout}. Nothing moves: start a new run"
            )
        if "error" not in event:
            approved = event["chosen_options"] == [self.APPROVE]
            user = event.get("responded_by_user") or {}
            by = user.get("name") or user.get("id") or "unknown"
            with one_line():
                self._record(context, approved, by, event["responded_at"], asked=True)
        return super().execute_complete(context, event)

    def _record(self, context: Any, approved: bool, by: str, when: datetime, asked: bool) -> None:
        from evenkeel.pipeline import approval

        at = when.isoformat(timespec="seconds")
        run = run_name(self.spec, self.dag_id, context["run_id"])
        approval.record(self.spec, run, approved, by, at, asked)
