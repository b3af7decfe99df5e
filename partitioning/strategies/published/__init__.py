"""Strategies of published papers: one family a module."""
