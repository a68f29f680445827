"""A store looked at while it fills: its state, a page of it on this machine, and Prometheus'
metrics."""
