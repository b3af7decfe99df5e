"""The constraint of a state table while its rows move: how it is opened, closed and sealed."""
