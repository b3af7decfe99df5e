"""Airflow DAGs of every table spec in `$EVENKEEL_TABLES` (default: `tables` beside this folder).

For each: `rebalance_<table>` on the spec's schedule or when asked, `roll_back_<table>` when asked,
`repair_<table>` when asked, `maintain_<table>` weekly, `watch_<table>` every few minutes if the
spec asks for it. A spec that is wrong has no DAGs here; `evenkeel_specs.py` says why.
"""

from __future__ import annotations

from pathlib import Path

from evenkeel.spec.catalog import tables_folder
from evenkeel_airflow.table_dags import load_tables

# Airflow reads a file for DAGs only if it has the words "airflow" and "dag".
load_tables(globals(), tables_folder(Path(__file__).parents[1]))
