"""Questions asked of a trained model: what it does when the people in a text are others, and what it attends to."""
