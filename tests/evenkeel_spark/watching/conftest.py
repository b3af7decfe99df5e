"""Fixtures: a table that is watched."""

from tests.support.worlds.live import live, template  # noqa: F401
