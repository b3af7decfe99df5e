"""What Airflow knows of a table's runs: their states, what they wait for, what blocks them."""
