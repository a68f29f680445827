"""Data sets as a model takes them: texts as its tokens, images as another model's features, made
once for each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crosswind.core.errors import InputError
from crosswind.core.types import canonical, digest
from crosswind.data.attributes import AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import evaluation_inputs
from crosswind.models.build import Backbone, make_backbone

__all__ = ["encoded"]


def encoded(
    dataset: AttributedDataset,
    name: str,
    knobs: Mapping[str, Any],
    seed: int,
    device: str,
    precision: str,
) -> AttributedDataset:
    """The data set itself where the model `name` takes its inputs as they are; else with what
    `Backbone.encoder` makes of them.

    Then each value of a derived attribute has a row of its own, of the same number, and that
    attribute is one of the table. Raises `InputError` for inputs that the model does not take,
    `DataError` where there are none.
    """
    spec = dataset.check_inputs()
    backbone = make_backbone(name, knobs, spec)
    if type(backbone).encoder is Backbone.encoder:
        return dataset
    seed_and_device = [
        seed if backbone.encoder_draws() else None,
        device.partition(":")[0],
        precision,
    ]
    cache_key = canonical([name, type(backbone).version, dict(knobs), *seed_and_device])
    if ("encoded", cache_key) in dataset.cache:
        cached: AttributedDataset = dataset.cache["encoded", cache_key]
        return cached
    encoder = backbone.encoder(spec, seed, device)
    if encoder is None:
        return dataset
    table = dataset.table
    derived = dataset.derived
    if derived is not None:
        if derived.mode != "fixed":
            problem = (
                f"reads each row once, and {derived.name!r} is drawn at every visit; make its mode"
                " fixed"
            )
            raise InputError("model", f"{name} {problem}")
        values = np.tile(np.arange(dataset.n_derived), dataset.n_base)
        codes = np.concatenate(
            [
                np.repeat(table.codes, dataset.n_derived, axis=1),
                values.astype(table.codes.dtype)[None],
            ]
        )
        table = AttributeTable(dataset.schema, codes)
    ids = dataset.row_ids(np.arange(dataset.n_rows))
    fingerprint = digest({"of": dataset.fingerprint, "encoded": cache_key})
    encoded_dataset = AttributedDataset(
        dataset.name,
        table,
        lambda rows: encoder.apply(evaluation_inputs(dataset, rows)),
        encoder.input,
        ids=ids,
        fingerprint=fingerprint,
    )
    dataset.cache["encoded", cache_key] = encoded_dataset
    return encoded_dataset
