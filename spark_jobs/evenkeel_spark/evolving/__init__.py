"""Changes of columns of state tables to what their spec says by now."""
