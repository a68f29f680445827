"""Single rows of a data set: what was trained on, what was answered, and how training went."""
