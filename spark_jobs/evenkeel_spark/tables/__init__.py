"""State tables: the verbs that the pipeline needs of them."""
