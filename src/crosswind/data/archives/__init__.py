"""Files that others made, read with care: archives, arrays and downloads."""
