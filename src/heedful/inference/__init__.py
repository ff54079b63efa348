"""Using a model: inputs become batches, a model computes them, and answers come back in the order of the inputs.

Everything that uses a model goes through here: evaluation during training, the Python API, the command line, probes.
Answering changes nothing in a model.
"""
