"""Models asked with several prompts, side by side."""
