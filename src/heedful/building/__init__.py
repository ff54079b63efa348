"""Models as a recipe asks for them: from disk, or with random weights; each kind of model in a file of its own."""
