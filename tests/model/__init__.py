"""A model of the protocol: all that Evenkeel's jobs and other writers can do to a table, in any
order, with a crash or a pause before every step (docs/PROTOCOL.md)."""
