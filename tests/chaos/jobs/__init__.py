"""Jobs that no run has, under the same faults."""
