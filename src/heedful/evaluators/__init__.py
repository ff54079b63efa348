"""How good a model is on an evaluation set: metrics, baselines, statistics; each kind of data in a file of its own."""
