"""The assemblies: bodies built from the parts, and whole models. They know nothing of files."""
