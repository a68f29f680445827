"""One file that a stopped run goes on from: tensors and plain values in the safetensors format, written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from crosswind.core.errors import RunError

__all__ = ["load", "save"]


def save(path: Path, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
    """Write tensors and JSON values to `path`, replacing what is there only once the new file is on the disk."""
    # Every tensor is copied: two names of one memory are refused by the format, and layouts other than the plain one too.
    flat = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    data = safetensors.torch.save(flat, metadata={"crosswind": json.dumps(dict(values))})
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """What `save` wrote; None where there is no file. A file of another kind is a `RunError`. Nothing is unpickled."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            values = json.loads((file.metadata() or {})["crosswind"])
            # A copy: the file is mapped, and the next save replaces it.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise RunError(f"checkpoint {path.name!r} cannot be read ({error}); remove it to begin again") from None
    return tensors, values
