"""One optimiser a file: how it is made for named parameters, and its state as tensors under their names."""
