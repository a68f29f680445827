"""Runs of a study: their states, files and what their methods did."""
