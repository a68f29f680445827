"""Parquet files, read by a process of their own.

A damaged file can end the process that reads it: polars believes a run length of 2^61 and its allocator aborts, which no Python
catches. So a child reads the file, with bounded memory, and hands the rows over in Arrow's plain form, which nobody else wrote.
That costs a fifth of a second, once a file and process.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from crosswind.core.errors import DataError, one_line
from crosswind.data.attributes import MOST_ROWS

if TYPE_CHECKING:
    from polars import DataFrame

__all__ = ["read_parquet"]

MOST_BYTES = 8 << 30  # of memory for the child, whatever a file says that it holds
# Panics are no `Exception`. What is said on failure goes to the user, not the backtrace that Rust prints.
_CHILD = """
import sys
most, longest = int(sys.argv[1]), int(sys.argv[2])
try:
    import resource
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
except (ImportError, ValueError, OSError):
    pass
import polars
try:
    rows = polars.read_parquet(sys.stdin.buffer.read())
    if rows.height > longest:
        raise ValueError(f"it holds {rows.height:,} rows, more than {longest:,}")
    rows.write_ipc(sys.stdout.buffer)
except BaseException as error:
    sys.stdout.buffer.write(str(error).encode("utf-8", "replace"))
    sys.exit(1)
"""


def read_parquet(place: Path, path: str) -> DataFrame:
    """The rows of a Parquet file that errors call `path`.

    Raises `DataError` for a damaged file and for one of too many rows, `OSError` for what cannot be opened.
    """
    # Where this process finds polars the child does too, and not in the working directory.
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    command = [sys.executable, "-P", "-c", _CHILD, str(MOST_BYTES), str(MOST_ROWS)]
    with place.open("rb") as file:
        child = subprocess.run(command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=found, check=False)
    if child.returncode:
        said = f"it is damaged, or takes more than {MOST_BYTES >> 30} GiB of memory"
        if child.returncode == 1:
            said = one_line(child.stdout.decode("utf-8", "replace").strip().split("\n\n")[0], 200)
        raise DataError(f"{path} cannot be read as a PARQUET table: {said}")
    import polars

    return polars.read_ipc(io.BytesIO(child.stdout))
