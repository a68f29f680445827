"""What is done to texts as lists of tokens, with randomness of its own for every text."""
