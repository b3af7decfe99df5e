"""What a migration and other writers of its table cost each other."""
