"""Windows of events, folded into Iceberg tables."""
