"""Transforms of rows that are vectors of numbers, with randomness of its own for every row."""
