"""Decide where every key lives and which rows move: NumPy only, no Spark, no Airflow, no files."""
