"""What a language model knows, how sure one may be of it, and when it should keep silent."""
