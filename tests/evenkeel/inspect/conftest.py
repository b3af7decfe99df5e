"""Fixtures of the tests of inspect."""

from tests.support.worlds.shop import shop  # noqa: F401
