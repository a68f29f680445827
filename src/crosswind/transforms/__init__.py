"""Transforms of a batch of images, with randomness of its own for every sample, on any device."""
