"""Answers to what people ask about a table: its status, its keys, its epochs."""
