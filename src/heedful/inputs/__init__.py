"""What a model reads of the data: rows as token ids, which rows form a step, what is drawn for them."""
