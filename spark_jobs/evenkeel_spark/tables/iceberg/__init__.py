"""What is read from and written to an Iceberg table."""
