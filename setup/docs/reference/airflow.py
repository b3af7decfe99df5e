"""Pages of what Airflow shows: the DAGs of a table with their Params, and the metrics of a run."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from setup.docs.reference.markdown import code, fields, page, table

# Before Airflow, whose folder would be one in the user's home.
from tests.support.airflow_env import HOME as _HOME  # noqa: F401

_SPEC = """table: TABLE
key: [key]
input: {path: events, time: time}
registry: registry/TABLE
channels: 2
"""
#: Kind of DAG -> the field of the spec that says when it runs, with its unit.
_SCHEDULES = {"rebalance": "`schedule` of the spec", "watch": "`watch.every` of the spec, minutes"}
#: A spec with every DAG that a table of one kind can have, by the name of its file.
_SPECS = {
    "TABLE": _SPEC + "state: {s: {path: s, columns: {n: {merge: count}}}}\nwatch: {}\n",
    "YOURS": _SPEC.replace("TABLE", "YOURS") + "state: {s: {path: yours, rows: many}}\n",
}


def dags() -> str:
    """Return the page of DAGs and Params."""
    from evenkeel_airflow import load_tables

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in _SPECS.items():
            Path(folder, f"{name}.yaml").write_text(text)
        load_tables(found, folder)
    made = {dag.dag_id.replace("YOURS", "TABLE"): dag for dag in reversed(list(found.values()))}
    return page(
        "DAGs and their Params",
        "`load_tables` makes these DAGs for each table spec. `watch_TABLE` needs `watch` in the "
        "spec. `apply_TABLE` is there for tables that Evenkeel makes, if `input.time` is set. "
        "`adopt_TABLE` and `release_TABLE` are there for tables of your own, `undo_window` for "
        "Delta tables that Evenkeel makes. Iceberg tables have no Params that limit commits and "
        "rates.",
        'A Param that is empty takes the value of the spec. "Default" says which one, in a spec '
        "without an entry for it.",
        "A run whose conf has a name that is no Param fails at its first job, before anything is "
        "done. It does so, too, where `[core] dag_run_conf_overrides_params` is False, because "
        "Airflow would then ignore the conf. So a typo in `dry_run` cannot start a real run.",
        *(_dag(name, made[name]) for name in sorted(made)),
    )


def _dag(name: str, dag: Any) -> str:
    about = dag.description.replace("YOURS", "TABLE")
    schedule = _schedule(dag.schedule, _SCHEDULES.get(name.split("_")[0]))
    rows = [
        [
            code(param),
            _type(given),
            _range(given),
            given.get("title", ""),
            given.get("description") or "",
        ]
        for param, given in ((p, _given(dag.params.get_param(p))) for p in dag.params)
    ]
    head = f"## {name}\n\n{about}. {schedule}."
    return (
        f"{head}\n\n{table(['Param', 'type', 'range', 'title', 'meaning'], rows)}" if rows else head
    )


def _schedule(value: Any, named: str | None) -> str:
    if not value:
        return "It runs when asked"
    # A table's own spec may have another value than this one, which is its default.
    shown = code(f"{value.total_seconds() / 60:g}" if isinstance(value, timedelta) else value)
    return f"Schedule: {shown}" if named is None else f"Schedule: {named}; default: {shown}"


def _given(param: Any) -> dict[str, Any]:
    return {"description": param.description, **param.schema}


def _type(schema: dict[str, Any]) -> str:
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    plain = {
        "null": "",
        "string": "text",
        "integer": "whole number",
        "array": "list of numbers",
        "boolean": "yes or no",
    }
    if schema.get("format") == "date":
        return "day"
    if "enum" in schema:
        return ", ".join(code(value) for value in schema["enum"] if value)
    return "".join(plain.get(kind, kind) for kind in kinds)


def _range(schema: dict[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is None:
        return ""
    return f"at least {least:,}" if most is None else f"{least:,} to {most:,}"


def metrics() -> str:
    """Return the page of metrics."""
    from evenkeel.pipeline.metrics import run_metrics

    found = fields(run_metrics.__doc__ or "").items()
    rows = [[code(name), *about.split(": ", 1)] for name, about in found]
    return page(
        "Metrics",
        "The task `report` of every run gives these to Airflow's metrics (StatsD or "
        "OpenTelemetry), as gauges `evenkeel.TABLE.NAME`. It also logs them as one line of JSON, "
        "`evenkeel: measures: {...}`, with table, run, epoch and digest of the plan.",
        table(["name", "unit", "meaning"], rows),
    )
