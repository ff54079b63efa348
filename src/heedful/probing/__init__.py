"""Probes in Python, as the command has them: models by name or directory, studies with all their settings and seeds."""

from heedful.probing.bias import probe_bias
from heedful.probing.knowledge import probe_knowledge
from heedful.probing.subjects import find_subjects

__all__ = ["find_subjects", "probe_bias", "probe_knowledge"]
