"""Scores of predictions and comparisons over seeds: pure functions of plain values."""
