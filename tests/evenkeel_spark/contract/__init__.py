"""The contract of both table formats: the same tests, given to Delta and to Iceberg tables."""
