"""Estimates of accuracy, and estimators judged on pools of networks."""
