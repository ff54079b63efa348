"""Pairs of texts that say the same in two languages: read, checked, filtered, named."""
