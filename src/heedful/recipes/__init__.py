"""Recipes: TOML files that say what to do. The docstrings of the schema's fields are the reference."""
