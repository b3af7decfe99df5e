"""What people ask about a table: its status, its keys, its epochs."""
