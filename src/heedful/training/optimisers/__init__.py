"""One optimiser a file, whose `make` makes it for named parameters."""
