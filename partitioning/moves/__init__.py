"""Moves that a change of function makes, and in which order they are safe."""
