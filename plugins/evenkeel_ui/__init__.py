"""Show Evenkeel's pages in Airflow's UI."""
