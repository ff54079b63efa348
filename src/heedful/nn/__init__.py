"""The parts of a transformer, written as in the papers. They know nothing of files or configurations."""
