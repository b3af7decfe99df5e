"""Wire the steps and jobs of every table into Airflow DAGs."""
