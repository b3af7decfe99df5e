"""The jobs on Iceberg tables of a team: rows move on a branch, which main then follows."""
