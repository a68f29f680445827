"""Networks that are trained here: stages, features and a head."""
