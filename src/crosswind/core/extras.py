"""The extras of the package: what each one is for, and which of their distributions are missing."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EXTRAS", "Extra", "installed_version", "missing_distributions"]


@dataclass(frozen=True)
class Extra:
    """`purpose`: what cannot be done without it, going on from "for". `distributions`: what pip
    installs for it, as `pyproject.toml` names them."""

    purpose: str
    distributions: tuple[str, ...]


EXTRAS: dict[str, Extra] = {
    "chat": Extra("models behind an endpoint for chats", ("openai", "httpx")),
    "features": Extra("`crosswind features` in two dimensions (UMAP)", ("umap-learn",)),
    "hdf5": Extra("original files in HDF5", ("h5py",)),
    "huggingface": Extra("data sets of Hugging Face", ("datasets",)),
    "mlflow": Extra(
        "`crosswind export --to mlflow` and `run --log mlflow`", ("mlflow-skinny", "alembic")
    ),
    "onnx": Extra("models in ONNX files", ("onnxruntime",)),
    "postgresql": Extra("a store on PostgreSQL", ("psycopg",)),
    "ray": Extra("`crosswind run --engine ray`", ("ray",)),
    "skops": Extra("estimators of scikit-learn in skops files", ("skops",)),
    "tensorboard": Extra(
        "`crosswind export --to tensorboard` and `run --log tensorboard`", ("tensorboard",)
    ),
    "timm": Extra("networks of timm", ("timm",)),
    "transformers": Extra(
        "CLIP, vision-language models, transformers of texts, LoRA",
        ("transformers", "peft", "accelerate", "sentencepiece"),
    ),
    "transport": Extra("the estimators that compute optimal transport", ("POT",)),
    "wandb": Extra("`crosswind export --to wandb` and `run --log wandb`", ("wandb",)),
}
"""By name, in alphabetical order."""


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution; None where it is not installed."""
    # A sixth of what `crosswind --help` takes, were it loaded with this module.
    import importlib.metadata

    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def missing_distributions(extra: str) -> list[str]:
    """The distributions of an extra that are not installed."""
    return [name for name in EXTRAS[extra].distributions if installed_version(name) is None]
