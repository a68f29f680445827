"""Where data sets come from, one file a family of sources. Nothing is imported here, so that
listing sources costs nothing."""
