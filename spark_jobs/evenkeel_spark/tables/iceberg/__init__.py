"""Reads and writes of an Iceberg table."""
