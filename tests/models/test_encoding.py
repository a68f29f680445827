"""What models make of a row once: tokens of texts by hand, another model's features, rows of
derived values; held as any array."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import crosswind as cw
from crosswind.core.errors import DataError, InputError
from crosswind.core.types import InputSpec
from crosswind.data import resident
from crosswind.data.attributes import Attribute, AttributeTable, DerivedAttribute
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import derive, evaluation_inputs
from crosswind.models.build import build_model, unnamed
from crosswind.models.networks.bag_of_words import BagOfWords
from crosswind.models.networks.encoding import encoded
from crosswind.models.networks.linear_probe import AT_ONCE

TEXTS = np.array(["It isn't bad!", "", "Bad, bad BAD day."], dtype=object)
PICTURE = InputSpec.image(8, 8, 3)


def texts(**changes: Any) -> AttributedDataset:
    table = AttributeTable((Attribute("label", ("a", "b")),), np.array([[0, 1, 0]]))
    return replace(
        AttributedDataset(
            "texts", table, lambda rows: TEXTS[rows], InputSpec.text(), ids=np.array([7, 3, 5])
        ),
        **changes,
    )


def pictures(n: int = 300) -> AttributedDataset:
    picture_array = np.random.default_rng(0).integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
    table = AttributeTable((Attribute("label", ("a", "b")),), np.arange(n)[None] % 2)
    return AttributedDataset("pictures", table, lambda rows: picture_array[rows], PICTURE)


def encode(data: AttributedDataset, name: str, seed: int = 0, **knobs: Any) -> AttributedDataset:
    return encoded(data, name, knobs, seed, "cpu", "fp32")


def test_tokens_are_hashes_of_words_and_pairs() -> None:
    """Lower case, apostrophes inside, no marks; words first, then pairs; 0 to the end; CRC-32
    modulo buckets - 1, plus 1."""

    def code(token: str) -> int:
        return zlib.crc32(token.encode()) % 99 + 1

    encoded_data = encode(texts(), "bag-of-words", buckets=100, words=3).inputs(np.arange(3))
    assert encoded_data.dtype == np.int64 and encoded_data.tolist() == [
        [code("it"), code("isn't"), code("bad"), code("it isn't"), code("isn't bad")],
        [0, 0, 0, 0, 0],
        [code("bad"), code("bad"), code("bad"), code("bad bad"), code("bad bad")],
    ]


def test_a_text_is_the_mean_of_its_vectors() -> None:
    model = build_model("bag-of-words", {"width": 4}, InputSpec.tokens(3, 10), unnamed(2), 0)
    vectors = model.get_parameter("embedding.weight").detach()
    with torch.no_grad():
        encoded_data = model.features(torch.tensor([[2, 5, 0], [0, 0, 0], [2, 2, 5]]))
    assert torch.allclose(
        encoded_data,
        torch.stack(
            [(vectors[2] + vectors[5]) / 2, torch.zeros(4), (2 * vectors[2] + vectors[5]) / 3]
        ),
    )
    assert float(vectors.abs().max()) <= 0.25 and not vectors[0].any()


def test_values_of_a_derived_attribute_become_rows_under_their_numbers() -> None:
    edits = DerivedAttribute("edit", ("no", "yes"), "eda", (None, {"delete": 0.9}), mode="fixed")
    data = derive(texts(), edits)
    encoded_data = encode(data, "bag-of-words", words=4)
    assert (
        encoded_data.n_rows == data.n_rows == 6
        and encoded_data.ids.tolist() == data.row_ids(np.arange(6)).tolist()
    )
    assert encoded_data.table.column("edit").tolist() == [0, 1] * 3 and encoded_data.table.column(
        "label"
    ).tolist() == [0, 0, 1, 1, 0, 0]
    plain = encode(texts(), "bag-of-words", words=4).inputs(np.arange(3))
    assert np.array_equal(encoded_data.inputs(np.array([0, 2, 4])), plain) and not np.array_equal(
        encoded_data.inputs(np.array([1, 3, 5])), plain
    )
    mixed = np.array([0, 5, 2, 1])
    assert [evaluation_inputs(data, np.array([row]))[0] for row in mixed] == evaluation_inputs(
        data, mixed
    ).tolist()


def test_features_are_those_of_the_model_whatever_stands_beside_a_row(tmp_path: Path) -> None:
    data = pictures()
    assert data.n_base > AT_ONCE
    model = build_model("small-cnn", {}, PICTURE, unnamed(4), 5).eval()
    save_file(
        {key: value.clone() for key, value in model.state_dict().items()},
        str(tmp_path / "w.safetensors"),
    )
    probe = {"of": "small-cnn", "weights": str(tmp_path / "w.safetensors")}
    encoded_data = encode(data, "linear-probe", **probe)
    rows = np.array([290, 3, 17])
    x = torch.from_numpy(data.inputs(rows)).permute(0, 3, 1, 2) / 127.5 - 1
    with torch.no_grad():
        assert np.allclose(encoded_data.inputs(rows), model.features(x).numpy(), atol=1e-5)
    assert encoded_data.input == InputSpec.features(128) and np.array_equal(
        encoded_data.inputs(np.arange(300))[rows], encoded_data.inputs(rows)
    )
    assert (
        encode(data, "linear-probe", 1, **probe) is encoded_data
        and encode(data, "linear-probe", of="small-cnn") is not encoded_data
    )
    drawn = [encode(data, "linear-probe", seed, of="small-cnn").fingerprint for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2] and data.fingerprint not in drawn


def test_a_probe_of_texts_reads_their_tokens_first() -> None:
    encoded_data = encode(texts(), "linear-probe", of="bag-of-words", settings={"width": 5})
    assert (
        encoded_data.inputs(np.arange(3)).shape == (3, 5)
        and not encoded_data.inputs(np.array([1])).any()
    )


def test_what_a_model_takes_as_it_is_stays(tmp_path: Path) -> None:
    data = pictures(4)
    assert encode(data, "small-cnn") is data and encode(data, "linear-probe") is data
    with pytest.raises(InputError, match="mlp takes images or features, and these are texts"):
        encode(texts(), "mlp")
    with pytest.raises(DataError, match="no inputs"):
        encode(texts(read=None, input=None), "mlp")
    noise = derive(
        data,
        DerivedAttribute("noise", ("no", "yes"), "gaussian-noise", (None, {}), mode="per-visit"),
    )
    with pytest.raises(
        InputError, match="reads each row once, and 'noise' is drawn at every visit"
    ):
        encode(noise, "linear-probe", of="small-cnn")


@pytest.mark.parametrize("held", ["all", "some", "none"])
def test_arrays_of_other_types_are_held_as_pixels_are(held: str) -> None:
    for data in (
        encode(texts(), "bag-of-words", words=2),
        encode(pictures(40), "linear-probe", of="small-cnn"),
    ):
        with cw.data.budget.bounded(0 if held == "none" else None):
            rows = resident.ResidentRows(data, np.arange(data.n_base), evaluation=True)
            rows.bring(np.array([2]) if held == "some" else None)
            assert rows.held() == (held == "all")
            taken = rows.take(np.array([2, 0, 2]))
        assert taken.dtype == data.input.dtype and np.array_equal(
            taken, data.inputs(np.array([2, 0, 2]))
        )  # type: ignore[union-attr]


def test_words_of_inputs() -> None:
    assert [
        str(spec)
        for spec in (PICTURE, InputSpec.text(), InputSpec.features(3), InputSpec.tokens(9, 2))
    ] == [
        "images of 8 x 8 x 3",
        "texts",
        "features of 3 numbers",
        "texts of 9 tokens",
    ]
    image_and_text = InputSpec.image_and_text(8, 8, 3)
    assert (
        image_and_text.dtype == object
        and image_and_text.row_shape == ()
        and str(image_and_text) == "images of 8 x 8 x 3 with texts"
    )
    assert PICTURE.tensor_shape == (3, 8, 8) and BagOfWords.built.takes == ("text", "tokens")
