"""Fixtures: a shop, which has a plan to make and no rows."""

from tests.support.worlds.shop import shop  # noqa: F401
