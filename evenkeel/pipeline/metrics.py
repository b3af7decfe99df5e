"""What a run has measured, as names and numbers: for Airflow's metrics, and one line of log."""

from __future__ import annotations

import re
from typing import Any

from evenkeel.pipeline.steps import open_run
from evenkeel.runs.record import RunParts, read_run


def run_metrics(spec_path: str, run_id: str) -> tuple[dict[str, Any], dict[str, float]]:
    """Whose they are (table, run, epoch, plan), and the numbers that the run has so far.

    imbalance_before, imbalance_after, floor : predicted by the plan
    bytes_planned, bytes_moved, rows_moved : by the plan, and by the commits that moved rows
    seconds_learn, seconds_migrate_TABLE : taken
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
        moved = list(parts.migration["tables"].values())
        found["bytes_moved"] = float(sum(t["bytes"] for t in moved))
        found["rows_moved"] = float(sum(t["rows"] for t in moved))
    for step, seconds in parts.timings.items():
        found[re.sub(r"\W", "_", f"seconds_{step}")] = seconds
    gates = [g for g in (parts.gate_plan, parts.gate_tables) if g is not None]
    if gates:
        failed = [r for g in gates for r in g["results"] if not r["success"]]
        found["gate_failures"] = float(len(failed))
    return found
