"""What is in deploy/, and the compose file: what can be known of it without an engine."""
