"""Deletion of keys for good: their rows in all state tables, and their names in the registry."""
