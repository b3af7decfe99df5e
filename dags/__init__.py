"""When things run: wiring, and nothing else."""
