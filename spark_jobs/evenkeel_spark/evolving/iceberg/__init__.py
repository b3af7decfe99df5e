"""Changes of Iceberg tables to what their spec says by now."""
