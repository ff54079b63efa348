"""Texts into texts with a translator: what `heedful.load` returns for one, and what `heedful translate` does."""
