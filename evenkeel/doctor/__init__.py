"""Look at an installation and say what works, what does not, and what to do."""
