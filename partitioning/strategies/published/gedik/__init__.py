"""Gedik's functions: heavy keys placed one by one (scan, redist, readj), the rest by a ring."""
