"""How sure one may be of a number. Every function returns its numbers and a sentence that says them in plain words."""
