"""The jobs on Iceberg tables: rows move on a branch, which main then follows."""
