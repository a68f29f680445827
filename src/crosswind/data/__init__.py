"""Examples by row, their attributes, and where they come from."""
