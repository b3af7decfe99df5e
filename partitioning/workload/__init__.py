"""What is known of the load: profiles, metrics, bounds, the forecast."""
