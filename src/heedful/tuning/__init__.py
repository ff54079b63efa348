"""Which weights train, and what can be computed once because the others do not."""
