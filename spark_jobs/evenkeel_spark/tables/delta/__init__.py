"""State tables on Delta Lake."""
