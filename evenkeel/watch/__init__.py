"""The watch's state between micro-batches, and the plans it makes."""
