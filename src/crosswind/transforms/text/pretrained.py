"""Networks of others by which texts are changed: where they lie, what they are, how they are
loaded, where they work."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from crosswind.core.errors import InputError, one_line
from crosswind.core.types import digest, file_hash

_FILES = ("*.json", "*.txt", "*.model", "*.spm", "*.safetensors")
"""What is read of a model. Pickled weights, which may hold programs, and programs are not among
them."""
_COMMIT = re.compile(r"[0-9a-f]{40}")


def located(name: str, revision: str, field: str) -> Path:
    """The folder of a model: `name` itself, or where the hub's cache has the commit `revision` of
    it, fetched if it is not there.

    Raises `InputError` on `field` for a missing extra, and where there is no such model, or none
    with safetensors.
    """
    if find_spec("transformers") is None:
        raise InputError(field, "needs the extra: pip install 'crosswind[transformers]'")
    if not name:
        raise InputError(
            field, "must name a model: a folder, or one of the hub with its commit as revision"
        )
    folder = Path(name)
    if not folder.is_dir():
        folder = _fetched(name, revision, field)
    if not any(folder.glob("*.safetensors")):
        raise InputError(
            field,
            f"{name!r} has no weights as safetensors, the only form that is read; convert them"
            " first",
        )
    return folder


def identity(name: str, revision: str, field: str) -> str:
    """The identity of the answers of a model: the hash of its files, or its name and commit on the
    hub. Raises `InputError`."""
    folder = located(name, revision, field)
    if Path(name).is_dir():
        return _hash(str(folder.resolve()), _stamp(folder))
    return f"{name}@{revision}"


def _fetched(name: str, revision: str, field: str) -> Path:
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        raise InputError(field, f"there is no folder {name!r}")
    if not _COMMIT.fullmatch(revision):
        problem = (
            f"there is no folder {name!r}; for a model of the hub, revision must be its commit, 40"
            " digits and letters a to f"
        )
        raise InputError(field, problem)
    from huggingface_hub import snapshot_download

    last_error: Exception | None = None
    for local_only in (True, False):
        try:
            return Path(
                snapshot_download(
                    name,
                    revision=revision,
                    allow_patterns=list(_FILES),
                    local_files_only=local_only,
                )
            )
        except Exception as error:  # of the network, of the hub, of the cache
            last_error = error
    why = one_line(str(last_error), 200)
    raise InputError(
        field,
        f"{name!r} at {revision[:8]} is not in the cache of the hub and cannot be fetched ({why})",
    )


def _stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    files = sorted({file for pattern in _FILES for file in folder.glob(pattern)})
    return tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files)


@lru_cache(maxsize=16)
def _hash(folder: str, stamp: tuple[tuple[str, int, int], ...]) -> str:
    return digest({name: file_hash(Path(folder) / name) for name, _, _ in stamp})


def loaded(kind: str, name: str, revision: str, field: str) -> tuple[Any, Any]:
    """Network, in float32 and evaluation mode, and tokenizer of a model. `kind`: `MaskedLM` or
    `Seq2SeqLM`.

    No code of the model's own is run. Raises `InputError` on `field` for files that are damaged or
    of another kind of model.
    """
    folder = located(name, revision, field)
    try:
        return _loaded(kind, str(folder.resolve()), _stamp(folder))
    except InputError:
        raise
    except Exception as error:  # whatever the library raises for files that it cannot read
        model_kind = {"MaskedLM": "a masked language model", "Seq2SeqLM": "a translation model"}[
            kind
        ]
        reason = f"{type(error).__name__}: {one_line(str(error), 200)}"
        problem = f"{name!r} cannot be loaded as {model_kind} ({reason})"
        raise InputError(field, problem) from None


@lru_cache(maxsize=4)
def _loaded(kind: str, folder: str, stamp: tuple[tuple[str, int, int], ...]) -> tuple[Any, Any]:
    import torch
    import transformers

    with _quietly():
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        network, loading_info = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
    missing = sorted(loading_info["missing_keys"])
    if missing:
        raise ValueError(f"its files lack {len(missing)} tensors of it, such as {missing[0]}")
    return network.eval().requires_grad_(False), tokenizer


@contextmanager
def _quietly() -> Iterator[None]:
    from transformers.utils import logging

    level = logging.get_verbosity()
    had_bar = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if had_bar:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def positions(network: Any, tokenizer: Any) -> int:
    """The most tokens that a network takes at once, special ones included."""
    most_tokens = int(getattr(network.config, "max_position_embeddings", 512))
    # RoBERTa and its kin count their positions from behind the one that stands for padding.
    rows = next(
        (
            submodule
            for name, submodule in network.named_modules()
            if name.endswith("position_embeddings")
        ),
        None,
    )
    if rows is not None and getattr(rows, "padding_idx", None) is not None:
        most_tokens -= int(rows.padding_idx) + 1
    return min(most_tokens, int(tokenizer.model_max_length))


def device() -> str:
    """Where a network works: on the GPU on which this process works already, else on the CPU."""
    import torch

    return f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_initialized() else "cpu"  # type: ignore[no-untyped-call]
