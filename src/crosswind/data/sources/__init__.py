"""Where data sets come from, one file a source. Nothing is imported here, so that listing sources costs nothing."""
