"""Python's search for garbage, held back while many values are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["no_collection"]


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect no garbage inside."""
    # Hundreds of thousands of values that all stay: looking for garbage among them again and again
    # takes as long as reading them.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            # They are old already: else the next collections look through each of them three times.
            if gc.get_freeze_count() == 0:  # the program has not frozen anything itself
                gc.freeze()
                gc.unfreeze()
            gc.enable()
