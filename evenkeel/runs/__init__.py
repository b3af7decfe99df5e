"""One run: its parameters, its plan, and the files that it leaves."""
