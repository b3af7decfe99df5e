"""Decide whether to move, and make the plan."""
