"""How every job starts, reports progress and fails."""
