"""Events: read them, aggregate them by key, and sketch their load."""
