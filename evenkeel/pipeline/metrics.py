"""Metrics of a run as names and numbers: for Airflow's metrics, and for one line of log."""

from __future__ import annotations

import re
from typing import Any

from evenkeel.inspect.half_moved import half_moved
from evenkeel.pipeline.steps import open_run
from evenkeel.registry.epochs import Registry
from evenkeel.runs.record import RunParts, read_run
from partitioning.errors import DamagedError


def run_metrics(spec_path: str, run_id: str) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the labels (table, run, epoch, plan), and the numbers that the run has so far.

    Each field below begins with its unit, from which the reference takes it.

    imbalance_before : ratio: load of the fullest channel over the mean, by the function that the
        plan starts from; 1 is perfect
    imbalance_after : ratio: the same by the function that the plan leads to, as predicted
    floor : ratio: the least imbalance that any function can reach on the run's profile
    bytes_planned : bytes: state that the plan moves, by the weight that learning measured
    rows_moved : rows: written by the migration's commits, in all state tables
    bytes_moved : bytes: state of these rows, at the weight that the plan gave a row
    bytes_written : bytes: size of the files that these commits added, with their footers
    seconds_learn : seconds: the job learn took, from its start in Spark to the stored profile
    seconds_migrate_TABLE : seconds: the commits that moved rows of that state table took; waits
        between them do not count
    gate_failures : count: expectations that failed in either gate, so that the run stopped
    gate_warnings : count: expectations that failed in either gate, and only warn
    rolled_back : 0 or 1: 1 if the plan had begun to move state, and was rolled back to the end
    published : 0 or 1: 1 if the plan's epoch is published
    half_moved : 0 or 1: 1 if a run of the table has begun to move rows and has not ended, or nobody
        can tell
    """
    spec, registry, run = open_run(spec_path, run_id)
    parts = read_run(spec.table, registry, run)
    whose = {"table": spec.table, "run": run.name, "epoch": parts.epoch}
    numbers = {**_numbers(parts), "half_moved": _half_moved(registry, run.name)}
    return {**whose, "plan": parts.plan.digest if parts.plan else None}, numbers


def _half_moved(registry: Registry, run: str) -> float:
    try:
        return float(half_moved(registry, [run]) is not None)
    except DamagedError:
        return 1.0


def _numbers(parts: RunParts) -> dict[str, float]:
    # A run without one of these must end the alert that the run before it has begun.
    ended = ("published", "rolled_back", "gate_failures", "gate_warnings")
    found: dict[str, float] = dict.fromkeys(ended, 0.0)
    if (plan := parts.plan) is not None:
        found |= {
            "imbalance_before": plan.imbalance_before,
            "imbalance_after": plan.imbalance_after,
            "floor": plan.floor,
            "bytes_planned": plan.bytes,
            "published": float(parts.published is not None),
            "rolled_back": float(bool(parts.rolled_back and parts.started)),
        }
    if parts.migration is not None:
        cost = {f.name: f.measured for f in parts.figures}
        cost["rows_moved"] = cost["rows"]
        names = ("rows_moved", "bytes_moved", "bytes_written")
        found |= {n: v for n in names if (v := cost[n]) is not None}
    for step, seconds in parts.timings.items():
        found[re.sub(r"\W", "_", f"seconds_{step}")] = seconds
    gates = [g for g in (parts.gate_plan, parts.gate_tables) if g is not None]
    if gates:
        failed = [r for g in gates for r in g.results if not r.success]
        stopped = sum(r.fails_gate for r in failed)
        found["gate_failures"] = float(stopped)
        found["gate_warnings"] = float(len(failed) - stopped)
    return found
