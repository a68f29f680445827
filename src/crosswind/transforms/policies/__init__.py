"""Policies: which operations an image goes through, drawn for every sample on its own."""
