"""Changes of state tables and their columns to what their spec says by now."""
