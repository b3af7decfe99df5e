"""Fixtures of the pages' tests: half-moved tables, a browser, and a run that asks."""

from tests.support.pages.browser import eyes
from tests.support.pages.empty_tables import shop
from tests.support.pages.failed_runs import alone, broken
from tests.support.pages.questions import asking

__all__ = ["alone", "asking", "broken", "eyes", "shop"]
