"""The local Airflow of make up: its server, its client, its tables."""
