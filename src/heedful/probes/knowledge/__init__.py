"""What a language model knows, how sure one may be of it, and when it should keep silent."""

PRECISION = 0.9
"""The share of the answers that should be right, unless the user says otherwise."""
