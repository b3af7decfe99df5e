"""Metrics of a run as names and numbers: for Airflow's metrics, and for one line of log."""

from __future__ import annotations

import re
from typing import Any

from evenkeel.pipeline.steps import open_run
from evenkeel.runs.record import RunParts, read_run


def run_metrics(spec_path: str, run_id: str) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the labels (table, run, epoch, plan), and the numbers that the run has so far.

    imbalance_before, imbalance_after, floor : predicted by the plan; 1 is perfect
    bytes_planned : bytes of state that the plan moves
    rows_moved, bytes_moved : moved by the commits, at the weight that the plan gave a row
    bytes_written : bytes of files that the commits wrote, with their footers
    seconds_learn, seconds_migrate_TABLE : time of learning, and of moving each state table
    gate_failures : expectations that failed, of either gate
    rolled_back, published : 1 or 0
    """
    spec, registry, run = open_run(spec_path, run_id)
    parts = read_run(spec.table, registry, run)
    whose = {"table": spec.table, "run": run.name, "epoch": parts.epoch}
    return {**whose, "plan": parts.plan.digest if parts.plan else None}, _numbers(parts)


def _numbers(parts: RunParts) -> dict[str, float]:
    found: dict[str, float] = {}
    if (plan := parts.plan) is not None:
        found = {
            "imbalance_before": plan.imbalance_before,
            "imbalance_after": plan.imbalance_after,
            "floor": plan.floor,
            "bytes_planned": plan.bytes,
            "published": float(parts.published is not None),
            "rolled_back": float(bool(parts.rolled_back)),
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
        found["gate_failures"] = float(len(failed))
    return found
