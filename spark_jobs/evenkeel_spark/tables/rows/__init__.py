"""Rows of state tables of either format: where they belong, what they hold, and their size."""
