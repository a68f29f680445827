"""Weights of others in pickled files, converted once to safetensors without running what is in
them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from crosswind.core.errors import InputError, one_line
from crosswind.core.types import file_hash

__all__ = ["convert_weights"]

_WRAPPINGS = ("state_dict", "model_state_dict", "model")


def convert_weights(
    source: str | Path, into: str | Path, *, sha256: str, like: nn.Module | None = None
) -> str:
    """Write the weights of a file of torch's (.pth, .pt, .bin) as safetensors to `into`, and return
    the sha256 of what was written.

    `sha256` is that of `source`, as its authors publish it: nothing is read before it fits, and
    then by torch's reader of tensors alone. `like`: a network with the same parts in the same order
    under other names, which the weights are then given; every shape must agree. Raises `InputError`
    naming the first that does not.
    """
    source = Path(source)
    into = Path(into)
    if not source.is_file():
        raise InputError("source", f"there is no file {str(source)!r}")
    if into.suffix != ".safetensors":
        raise InputError("into", f"must end in .safetensors, which {into.name!r} does not")
    actual_hash = file_hash(source)
    if actual_hash != sha256:
        raise InputError("sha256", f"that of {str(source)!r} is {actual_hash}, not {sha256}")
    weights = _tensors(source)
    if like is not None:
        weights = _renamed(weights, like.state_dict(), source.name)
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    from crosswind.core.files import permit_as_folder

    staged = into.with_suffix(".part")  # a file that is named is whole
    try:
        save_file(
            {key: value.clone().contiguous() for key, value in weights.items()},
            staged,
            {"source": source.name, "sha256": sha256},
        )
        permit_as_folder(staged)
        staged.replace(into)
    except (OSError, SafetensorError) as error:
        staged.unlink(missing_ok=True)
        problem = f"{str(into)!r} cannot be written ({one_line(str(error), 200)})"
        raise InputError("into", problem) from None
    return file_hash(into)


def _tensors(source: Path) -> Mapping[str, Tensor]:
    try:
        loaded: Any = torch.load(source, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, OSError) as error:
        problem = f"{str(source)!r} is no file of tensors alone ({one_line(str(error), 200)})"
        raise InputError("source", problem) from None
    for key in _WRAPPINGS:
        if isinstance(loaded, dict) and isinstance(loaded.get(key), dict):
            loaded = loaded[key]
    if not isinstance(loaded, dict) or not loaded:
        raise InputError("source", f"{str(source)!r} holds no weights by name")
    not_a_tensor = next(
        (key for key, value in loaded.items() if not isinstance(value, Tensor)), None
    )
    if not_a_tensor is not None:
        raise InputError("source", f"{str(source)!r} holds {not_a_tensor!r}, which is no tensor")
    return loaded


def _renamed(
    weights: Mapping[str, Tensor], own_weights: Mapping[str, Tensor], source: str
) -> dict[str, Tensor]:
    out = {}
    for (theirs, value), (ours, own_value) in zip(
        weights.items(), own_weights.items(), strict=False
    ):
        if value.shape != own_value.shape:
            shapes = (
                f"{theirs!r} of shape {tuple(value.shape)} where {ours!r} of shape"
                f" {tuple(own_value.shape)} stands"
            )
            raise InputError(
                "like", f"is another network than that of {source!r}, which has {shapes}"
            )
        out[ours] = value
    if len(weights) != len(own_weights):
        problem = f"has {len(own_weights)} tensors, and {source!r} has {len(weights)}"
        raise InputError("like", problem)
    return out
