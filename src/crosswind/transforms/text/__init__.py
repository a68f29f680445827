"""Transforms of texts as lists of tokens, with randomness of its own for every text."""
