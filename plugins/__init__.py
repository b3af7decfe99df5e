"""What people see: the Airflow UI's pages. No rows, no Spark."""
