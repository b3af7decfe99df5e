"""Show wrong table specs as an Airflow import error of this file, which has no DAG.

If `evenkeel_dags.py` raised the error, the DAGs of all other tables would disappear too.
"""

from __future__ import annotations

from pathlib import Path

from evenkeel.spec.catalog import load_catalog, tables_folder
from evenkeel_airflow.operators import schedule_problem

catalog = load_catalog(tables_folder(Path(__file__).parents[1]))
problems = [str(problem) for problem in catalog.problems]
for file, spec in catalog.specs.items():
    if problem := schedule_problem(spec.schedule):
        problems.append(f"{file}: schedule: {problem}")
if problems:
    raise ValueError("\n".join(problems))
