"""Read events, aggregate them by key, and sketch their load."""
