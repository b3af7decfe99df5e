"""What OpenLineage hears of a task: what it reads and writes, and what a gate found there.

Airflow's OpenLineage provider calls these methods in the task's own process. Without the provider
nobody calls them, so it is imported inside them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evenkeel_airflow.operators.runs import run_name
from partitioning.errors import EvenkeelError

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.facet_v2 import data_quality_assertions_dataset

    from evenkeel.spec.table_spec import TableSpec

_INPUT, _STATE, _REGISTRY = "input", "state", "registry"
#: Job -> what it reads, and what it writes.
_FLOWS = {
    "bootstrap": ([_INPUT], [_STATE, _REGISTRY]),
    "learn": ([_INPUT, _STATE], [_REGISTRY]),
    "watch": ([_INPUT, _STATE], [_REGISTRY]),
    "validate_plan": ([_REGISTRY], []),
    "migrate": ([_STATE, _REGISTRY], [_STATE]),
    "verify": ([_STATE, _REGISTRY], [_STATE, _REGISTRY]),
    "roll_back": ([_STATE, _REGISTRY], [_STATE, _REGISTRY]),
    "repair": ([_STATE, _REGISTRY], [_STATE]),
    "maintain": ([_STATE, _REGISTRY], [_STATE, _REGISTRY]),
    "adopt": ([_STATE], [_STATE, _REGISTRY]),
    "apply_window": ([_INPUT, _REGISTRY], [_STATE]),
}
#: Job -> file of a run with what its gate found, and where. Without datasets there: the registry.
_GATES = {"validate_plan": ("gate_plan", _REGISTRY), "verify": ("gate_tables", _STATE)}
#: Hadoop's and fsspec's names of object stores -> OpenLineage's. Names of objects have no slash in
#: front; those of files have.
_OBJECT_STORES = {
    **{"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs"},
    **{"abfs": "abfss", "abfss": "abfss", "wasb": "wasbs", "wasbs": "wasbs"},
}
_log = logging.getLogger(__name__)


class Lineage:
    """Base of operators that OpenLineage hears of. A class of its own has `job` and `_given`."""

    job: str
    #: Option -> value of the task, with `--spec`.
    _given: Callable[[], dict[str, str]]
    #: Whether this try ended at its gate. After another error, a gate's file may be an earlier
    #: try's.
    gate_failed = False

    def get_openlineage_facets_on_start(self) -> OperatorLineage:
        """Return the datasets that the task reads and writes."""
        return self._lineage(None)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage | None:
        """Return the datasets, and what the gate found. A skipped task has touched none."""
        return None if task_instance.state == "skipped" else self._lineage(task_instance)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> OperatorLineage:
        """Return the datasets, and what the gate found if it stopped the task."""
        return self._lineage(task_instance if self.gate_failed else None)

    def _lineage(self, checked_by: Any) -> OperatorLineage:
        """`checked_by`: the task instance whose gate has an answer; None: no gate has."""
        from airflow.providers.openlineage.extractors import OperatorLineage
        from openlineage.client.event_v2 import InputDataset, OutputDataset

        from evenkeel.spec.loading import load_spec

        given = self._given()
        spec = load_spec(given["--spec"])
        reads, writes = _FLOWS[self.job]
        facets, (gate, checked) = {}, _GATES.get(self.job, ("", ""))
        if not _names(spec, checked):
            # The registry has the gate's file.
            checked = _REGISTRY
        if checked_by is not None and gate:
            try:
                run = run_name(given["--spec"], checked_by.dag_id, checked_by.run_id)
                facets = {"dataQualityAssertions": assertions(spec, run, gate)}
            except EvenkeelError as error:
                # The datasets are told all the same.
                _log.warning("No assertions for OpenLineage: %s", error)
        return OperatorLineage(
            inputs=[
                InputDataset(*name, inputFacets=facets if part == checked else {})
                for part in reads
                for name in _names(spec, part)
            ],
            outputs=[
                OutputDataset(*name)
                for part in ([] if given.get("--dry-run") else writes)
                for name in _names(spec, part)
            ],
        )


def assertions(
    spec: TableSpec, run: str, gate: str
) -> data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet:
    """Return the results of a gate of a run as OpenLineage's facet.

    Parameters
    ----------
    run : name of the run's folder
    gate : of `_GATES`
    """
    from openlineage.client.facet_v2 import data_quality_assertions_dataset as facet

    from evenkeel.registry.epochs import Registry

    found = getattr(Registry(spec.registry).run(run), gate).read()
    return facet.DataQualityAssertionsDatasetFacet(
        assertions=[
            facet.Assertion(
                assertion=result.model_extra.get("expectation", "expectation"),
                success=result.success,
                severity="error" if result.severity == "critical" else "warn",
                name=result.what,
                description=result.detail or None,
                expected=result.expected,
                actual=None if result.observed is None else str(result.observed),
            )
            for result in found.results
        ]
    )


def _names(spec: TableSpec, part: str) -> list[tuple[str, str]]:
    """Return namespace and name of the datasets of a part of a table."""
    places = {
        _INPUT: [spec.input.path],
        # OpenLineage names an Iceberg table by its location, which its catalog alone knows. A name
        # of our own would be another dataset than the one of a team's Spark jobs.
        _STATE: [table.path for table in spec.state.values() if table.format == "delta"],
        _REGISTRY: [spec.registry],
    }
    return [dataset_name(place) for place in places.get(part, [])]


def dataset_name(place: str) -> tuple[str, str]:
    """Return OpenLineage's namespace and name of a path or URL, as Spark's integration has them."""
    # Not by urllib: names of objects may have a question mark or a hash.
    scheme, _, rest = place.rpartition("://")
    host, slash, path = rest.partition("/") if scheme else ("", "", place)
    path = f"{slash}{path}".rstrip("/") or "/"
    if scheme in ("", "file"):
        return "file", path
    if store := _OBJECT_STORES.get(scheme):
        return f"{store}://{host}", path.lstrip("/") or "/"
    return f"{scheme}://{host}", path
