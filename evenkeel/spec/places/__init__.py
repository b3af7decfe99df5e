"""Places that a spec names: where they may be, and that they stay apart."""
