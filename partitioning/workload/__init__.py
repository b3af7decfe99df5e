"""The load: profiles, metrics, bounds, the forecast."""
