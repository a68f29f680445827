"""The one logger of the package, `crosswind`, of the standard library.

It says nothing by itself: a program shows what it wants by `logging.basicConfig`, the command line
by `--debug`. Runs that begin and end are of the level INFO, failed ones WARNING, what runs report
on the way and the traces of refusals DEBUG.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LOGGER = logging.getLogger("crosswind")
"""The logger under which everything of Crosswind logs."""
LOGGER.addHandler(logging.NullHandler())
DEBUG_LEVEL = logging.DEBUG
"""The level of `--debug`."""


@contextmanager
def shown_log(level: int) -> Iterator[None]:
    """Write what is logged from `level` on to standard error while the block runs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    level_before = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(level)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level_before)
