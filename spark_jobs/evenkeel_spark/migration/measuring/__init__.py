"""Measures for the gate of a migration, read from versions of the state tables."""
