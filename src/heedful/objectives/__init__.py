"""What is learned, one file per objective: the loss of a step, and which data, model and evaluation go with it."""
