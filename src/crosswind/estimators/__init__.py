"""Accuracy without labels: one file an estimator."""
