"""The gate of a plan, before a person is asked and before rows move."""

from __future__ import annotations

import logging
from typing import Any

from airflow.sdk import BaseOperator

from evenkeel_airflow.operators.defaults import with_retries
from evenkeel_airflow.operators.lineage import Lineage
from evenkeel_airflow.operators.runs import AirflowGateError, one_line, run_name


class ValidatePlan(Lineage, BaseOperator):
    """Check the plan of this run against its expectations.

    Parameters
    ----------
    spec : path of the table's spec; a template
    """

    job = "validate_plan"
    template_fields = ("spec",)

    def __init__(self, *, spec: str, **kwargs: Any) -> None:
        about = "Check the plan, before a person is asked and before rows move."
        super().__init__(**with_retries({"doc_md": about, **kwargs}))
        self.spec = spec

    def _given(self) -> dict[str, str]:
        """Return the spec's path, as the option of a job."""
        return {"--spec": self.spec}

    def execute(self, context: Any) -> None:
        """Run the gate; fail if a critical expectation does not hold."""
        # Great Expectations logs hundreds of lines about how it registers itself.
        logging.getLogger("great_expectations").setLevel(logging.WARNING)
        from evenkeel.pipeline import steps

        try:
            with one_line():
                run = run_name(self.spec, self.dag_id, context["run_id"])
                steps.validate_plan(self.spec, run)
        except AirflowGateError:
            self.gate_failed = True
            raise
