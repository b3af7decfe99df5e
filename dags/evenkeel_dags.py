"""Airflow DAGs of every table spec in `$EVENKEEL_TABLES` (default: `tables` beside this folder).

Each table has `rebalance_<table>` (on the spec's schedule or by hand), `roll_back_<table>` and
`repair_<table>` (by hand), `maintain_<table>` (weekly), and `watch_<table>` (every few minutes) if
the spec has a watch. A wrong spec has no DAGs here; `evenkeel_specs.py` shows its error.
"""

from __future__ import annotations

from pathlib import Path

from evenkeel.spec.catalog import tables_folder
from evenkeel_airflow.table_dags import load_tables

# Airflow reads a file for DAGs only if it has the words "airflow" and "dag".
load_tables(globals(), tables_folder(Path(__file__).parents[1]))
