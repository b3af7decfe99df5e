"""Generated event streams for tests and benchmarks."""
