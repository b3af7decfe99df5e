"""Watch the load within the day, batch by batch."""
