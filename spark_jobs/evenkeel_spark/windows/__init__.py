"""Windows of events: which are in the state, and how one gets in."""
