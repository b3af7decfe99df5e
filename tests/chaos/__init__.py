"""Fault injection: `make chaos`. A fault at a point of a step, then what Airflow would do, then
whether anything was lost."""
