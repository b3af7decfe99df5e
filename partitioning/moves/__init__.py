"""What a change of function moves, and in which order that is safe."""
