"""A year of one table in one go: `make soak`."""
