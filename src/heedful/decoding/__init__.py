"""From scores of the next token to texts. Knows no model: it is given a function that reads tokens."""
