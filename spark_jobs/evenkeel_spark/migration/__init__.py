"""Migrations: move rows from one epoch's placement to the next, check them, and go back."""
