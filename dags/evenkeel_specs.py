"""Show wrong table specs as an Airflow import error of this file, which has no DAG.

If `evenkeel_dags.py` raised the error, the DAGs of all other tables would disappear too.
"""

from __future__ import annotations

from pathlib import Path

from airflow.configuration import conf

from evenkeel.spec.catalog import tables_folder
from evenkeel_airflow import report_problems

configured = conf.get("evenkeel", "tables", fallback="")
report_problems(tables_folder(Path(__file__).parents[1], configured))
