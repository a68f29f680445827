"""Examples by row id with an integer attribute table; where they come from and which attributes are derived."""
