"""Networks as stages, features and head, built from a name."""
