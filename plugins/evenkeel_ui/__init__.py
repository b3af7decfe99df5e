"""The pages of Evenkeel in Airflow's UI."""
