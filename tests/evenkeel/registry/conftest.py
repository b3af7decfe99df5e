"""Fixtures: the registry that version 0.1.0 wrote."""

from tests.support.worlds.old_registry import old, spec_path  # noqa: F401
