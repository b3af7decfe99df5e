"""Spark jobs: where rows are touched. One job a file, run by spark-submit."""
