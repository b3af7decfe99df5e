"""Skew within the day: when to act on it, and how."""
