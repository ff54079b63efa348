"""What a model attends to as one page: pictures of every head, the text, and the table of heads."""
