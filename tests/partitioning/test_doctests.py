"""Examples in docstrings of partitioning: each prints what it says."""

import doctest
import importlib
import pkgutil

import partitioning


def test_examples_in_docstrings_print_what_they_say():
    tried = failed = 0
    for module in pkgutil.walk_packages(partitioning.__path__, "partitioning."):
        flags = doctest.NORMALIZE_WHITESPACE
        found = doctest.testmod(importlib.import_module(module.name), optionflags=flags)
        tried, failed = tried + found.attempted, failed + found.failed
    assert failed == 0
    assert tried >= 12
