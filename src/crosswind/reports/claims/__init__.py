"""Claims and findings of a study, judged by its scores."""
