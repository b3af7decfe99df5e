"""Tests of the pages of docs/: drawings, links, and steps that are run."""
