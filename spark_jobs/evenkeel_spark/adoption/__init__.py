"""Take tables that a team made itself under Evenkeel, and out again."""
