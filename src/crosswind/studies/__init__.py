"""A study file: its fields, its points, the splits that they need and its runs as a graph."""
