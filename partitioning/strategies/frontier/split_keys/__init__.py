"""Plan which keys to split, and how many parts each owner gets."""
