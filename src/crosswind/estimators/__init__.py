"""Accuracy without labels: one class an estimator, and families of them share a file."""
