"""Pages of docs/reference that are written from code: one module a kind of source."""
