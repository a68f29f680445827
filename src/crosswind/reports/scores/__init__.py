"""Scores of a study: by run, in tables and in figures."""
