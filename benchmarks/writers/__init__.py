"""Cost of a migration for other writers of its table, and of these writers for it."""
