"""State tables: what the pipeline reads from them and writes to them."""
