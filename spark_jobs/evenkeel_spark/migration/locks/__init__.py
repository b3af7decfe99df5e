"""The constraints of a state table while its rows move: what they say, and how they change."""
