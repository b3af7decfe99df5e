"""One run: what it is asked for, what it plans, and what it leaves."""
