"""Run chosen tests on each version of Spark, Airflow and Python that Evenkeel claims."""
