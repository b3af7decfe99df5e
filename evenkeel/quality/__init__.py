"""Quality gates: expectations on plans and on state tables, and their results."""
