"""Move rows: everything of Evenkeel that needs Spark."""
