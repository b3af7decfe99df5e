"""The Params of a table's DAGs: what a person may ask of one run."""

from __future__ import annotations

from airflow.sdk import Param

from evenkeel.spec.fields_together import DELTA_ONLY
from evenkeel.spec.run_params import Params
from evenkeel.spec.table_spec import TableSpec

#: Headings of Airflow's form.
AIM, SAFETY = "Aim", "Limits"
_AIMS = ("strategy", "channels", "capacities", "max_imbalance", "window_end", "relearn")
#: Params whose description ends with the spec's value -> what it says if the spec has none.
_OF_SPEC = {
    "strategy": "",
    "max_imbalance": "none",
    **dict.fromkeys(("budget", "batch", "batch_files", "rate", "rate_rows"), "no limit"),
}
_FIELDS = Params.model_json_schema()["properties"]


def rebalance_params(spec: TableSpec) -> dict[str, Param]:
    """Return the Params of a rebalance; an empty one takes the spec's value."""
    left_out = DELTA_ONLY if spec.iceberg else ()
    return {name: _param(name, spec) for name in _FIELDS if name not in left_out}


def switch(title: str, description: str, **schema: str) -> Param:
    """Return the Param of a switch that is off."""
    return Param(False, type="boolean", title=title, description=description, **schema)


def dry_run_param(description: str) -> dict[str, Param]:
    """Return the Param of a job's dry run."""
    return {"dry_run": switch("Dry run", description, section=SAFETY)}


def _param(name: str, spec: TableSpec) -> Param:
    schema = dict(_FIELDS[name])
    if kinds := schema.pop("anyOf", None):
        # Airflow's form takes one list of types, of which the first is that of an empty field.
        schema = {**kinds[0], **schema, "type": ["null", kinds[0]["type"]]}
    if name in _OF_SPEC:
        value = getattr(spec, name)
        text = f"{value:g}" if isinstance(value, float) else value
        schema["description"] += f" Default: {_OF_SPEC[name] if value is None else text}."
    return Param(schema.pop("default"), section=AIM if name in _AIMS else SAFETY, **schema)
