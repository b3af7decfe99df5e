"""The gates: expectations on plans and tables, and what was found."""
