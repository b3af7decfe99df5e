"""Typed files of the registry: `run_files` and `epoch_files` know every name and content."""
