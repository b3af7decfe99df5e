"""Documentation: its site, and the pages that are made from code."""
