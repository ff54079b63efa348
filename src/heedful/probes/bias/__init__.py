"""Counterfactual bias: what a model answers when a text speaks of another group, and of nothing else."""
