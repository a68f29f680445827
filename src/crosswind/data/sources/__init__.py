"""One file a source of data."""
