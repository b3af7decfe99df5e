"""Airflow DAGs of every table spec in `$EVENKEEL_TABLES`, or in `tables` beside this folder.

Each table has `rebalance_<table>` (on the spec's schedule or by hand), `roll_back_<table>`,
`repair_<table>` and `apply_<table>` (by hand), `maintain_<table>` (weekly), and `watch_<table>`
(every few minutes) if the spec has a watch. If its tables are a team's own, it has `adopt_<table>`
and `release_<table>` in place of `apply_<table>`. A wrong spec has no DAGs here;
`evenkeel_specs.py` shows its error.
"""

from __future__ import annotations

from pathlib import Path

from airflow.configuration import conf

from evenkeel.spec.catalog import tables_folder
from evenkeel_airflow import load_tables

# Airflow reads a file for DAGs only if it has the words "airflow" and "dag".
configured = conf.get("evenkeel", "tables", fallback="")
load_tables(globals(), tables_folder(Path(__file__).parents[1], configured))
