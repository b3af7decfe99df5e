"""Typed files of the registry: each name and content stands here, and nowhere else."""
