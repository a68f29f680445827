"""One file that a stopped run goes on from: tensors and plain values in the safetensors format,
written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from crosswind.core.errors import RunError
from crosswind.core.files import write_atomically
from crosswind.methods.base import Examples, Stage


def save(path: Path, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
    """Write tensors and JSON values to `path`, replacing what is there only once the new file is on
    the disk."""
    # Every tensor is copied: two names of one memory are refused by the format, and layouts other
    # than the plain one too.
    flat = {}
    for name, tensor in tensors.items():
        flat[name] = tensor.detach().to("cpu", copy=True).contiguous()
    metadata = {"crosswind": json.dumps(dict(values))}
    data = safetensors.torch.save(flat, metadata=metadata)
    write_atomically(path, data)


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The values that `save` wrote; None where there is no file. A file of another kind is a
    `RunError`. Nothing is unpickled."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            values = json.loads((file.metadata() or {})["crosswind"])
            # A copy: the file is mapped, and the next save replaces it.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise RunError(
            f"checkpoint {path.name!r} cannot be read ({error}); remove it to begin again"
        ) from None
    return tensors, values


def stage_tensors(stage: Stage) -> dict[str, Tensor]:
    """The tensors of a stage by name; `stage_from` makes the stage again of them and of the rest of
    its fields."""
    tensors = {
        f"stage/{key}": value
        for key in _OF_TENSORS[:2]
        if (value := getattr(stage, key)) is not None
    }
    extra = {} if stage.extra is None else vars(stage.extra)
    return tensors | {f"stage/extra/{key}": value for key, value in extra.items()}


def stage_values(stage: Stage) -> dict[str, Any]:
    """The fields of a stage that are plain values."""
    return {key: value for key, value in vars(stage).items() if key not in _OF_TENSORS}


def stage_from(values: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Stage:
    """The stage of `stage_values`, and of its tensors among those of a checkpoint."""
    taken = {}
    for key, value in tensors.items():
        if key.startswith("stage/"):
            taken[key.removeprefix("stage/")] = value
    extra = {
        key.removeprefix("extra/"): taken.pop(key)
        for key in list(taken)
        if key.startswith("extra/")
    }
    return Stage(**values, **taken, extra=Examples(**extra) if extra else None)  # type: ignore[arg-type]


_OF_TENSORS = ("weights", "copies", "extra")
