"""Prepared copies of data sets: originals read once, pixels in a memory map or as JPEG bytes, attributes beside them."""

from crosswind.data.prepared.copies import open_copy

__all__ = ["open_copy"]
