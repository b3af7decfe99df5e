"""Iceberg tables of a team, for the tests of the jobs on them."""
