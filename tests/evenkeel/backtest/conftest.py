"""Fixtures: words as events, in a frame and in a file."""

from tests.support.worlds.word_counts import frame, words  # noqa: F401
