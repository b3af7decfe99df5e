"""The partitioning function: where a key lives, in NumPy and in Spark SQL."""
