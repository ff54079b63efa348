"""Where a model looks: the weights of every head, what is special about each, and what they come to over all layers."""
