"""What the watch keeps between micro-batches, and the plans it makes."""
