"""Colored MNIST: even colours over MNIST's own copy, and the binary problem of IRM as its paper and
program have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.digit_files import drawn_digits, real_data, write_mnist

from crosswind.core.errors import DataError, InputError
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.prepared import prepare
from crosswind.data.sources.base import open_source
from crosswind.data.sources.mnist import COLORS, ColoredMnist, Mnist

TRAIN, TEST = drawn_digits(6000, 0), drawn_digits(137, 1)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with MNIST's copy, prepared as MNIST."""
    folder = tmp_path_factory.mktemp("data")
    write_mnist(folder / "originals" / "mnist", [TRAIN, TEST])
    prepare(Mnist(root=str(folder)), accept_totals=True)
    return str(folder)


def colored(root: str, **settings: Any) -> AttributedDataset:
    return open_source("colored-mnist", {"root": root, **settings})


@pytest.mark.slow
def test_it_is_made_from_the_copy_of_mnist_and_prepares_the_same(root: str, tmp_path: Path) -> None:
    data = colored(root)
    assert data.name == "colored-mnist" and data.n_base == 6137 and data.image_shape == (28, 28, 3)
    assert [attribute.name for attribute in data.schema] == ["digit", "split", "color"]
    source = ColoredMnist(root=str(tmp_path), size=20)
    assert [original.name for original in source.originals()] == [
        original.name for original in Mnist().originals()
    ] and len(source.originals()) == 4
    prepare(source, originals=str(Path(root) / "originals" / "mnist"), accept_totals=True)
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == [
        "mnist-size=20"
    ]
    assert Mnist(root=str(tmp_path), size=20).load().name == "mnist"
    assert source.load().image_shape == (20, 20, 3)


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_colours_are_even_within_each_digit_of_each_part(root: str, seed: int) -> None:
    digit, split, color = (
        colored(root, seed=seed).table.column(name).astype(int)
        for name in ("digit", "split", "color")
    )
    counts = np.zeros((2, 10, 10), dtype=int)
    np.add.at(counts, (split, digit, color), 1)
    assert (counts[0] == 60).all()  # 6,000 rows of 100 cells
    assert set(counts[1].ravel().tolist()) == {1, 2}  # 13 or 14 rows of ten colours
    # Those that get one row more are not the same colours for every digit.
    assert len({tuple(row) for row in (counts[1] == 2).tolist()}) > 3


def test_seed_deals_the_colours_and_nothing_else(root: str) -> None:
    first, second = colored(root), colored(root, seed=1)
    assert first.fingerprint == colored(root).fingerprint
    assert np.array_equal(first.table.codes[:2], second.table.codes[:2])
    assert (
        0.06 < (first.table.column("color") == second.table.column("color")).mean() < 0.14
    )  # a tenth by chance, sd 0.004
    prints = [
        first,
        second,
        colored(root, paint="ground"),
        colored(root, version="irm"),
        colored(root, version="irm", channels=3),
    ]
    assert len({data.fingerprint for data in prints} | {Mnist(root=root).load().fingerprint}) == 6


@pytest.mark.parametrize("paint", ["digit", "ground"])
def test_pixels_mix_the_colour_with_black_or_white(root: str, paint: str) -> None:
    data = colored(root, paint=paint)
    rows = np.array([0, 6136, 17, 4000])
    grey = np.concatenate([TRAIN[0], TEST[0]])[rows].astype(float) / 255
    for row, cover, picture in zip(rows.tolist(), grey, data.inputs(rows), strict=True):
        ink = np.array(
            COLORS[data.attribute("color").values[data.table.column("color")[row]]], dtype=float
        )
        for channel in range(3):
            expected_channel = (
                ink[channel] * cover
                if paint == "digit"
                else ink[channel] * (1 - cover) + 255 * cover
            )
            assert np.abs(picture[..., channel] - expected_channel).max() <= 0.5 + 1e-9


def irm_parts(data: AttributedDataset) -> dict[str, np.ndarray]:
    return {name: data.table.column(name).astype(int) for name in data.table.names}


def test_irm_environments_are_those_of_the_program(root: str) -> None:
    """Of 6,000 training rows the first 5,000 are dealt to 0.2 and 0.1, 2,500 each, and the last
    1,000 are 0.9."""
    data = colored(root, version="irm")
    assert data.n_base == 6000 and data.image_shape == (14, 14, 2)
    values = {attribute.name: attribute.values for attribute in data.schema}
    assert values == {
        "label": ("0-4", "5-9"),
        "color": ("green", "red"),
        "environment": ("0.1", "0.2", "0.9"),
        "digit": tuple("0123456789"),
        "split": ("train", "test"),
    }
    codes = irm_parts(data)
    assert np.bincount(codes["environment"]).tolist() == [2500, 2500, 1000]
    assert (codes["environment"][5000:] == 2).all()
    assert (
        1100 < codes["environment"][:2500].sum() < 1400
    )  # both halves hold both: 1,250 expected, sd 18
    assert np.array_equal(codes["split"] == 1, codes["environment"] == 2)
    assert np.array_equal(codes["digit"], TRAIN[1])


def test_irm_labels_and_colours_are_flipped_as_often_as_the_paper_says(root: str) -> None:
    """Within four deviations: of 0.25 over 6,000 rows 0.022, of 0.1, 0.2 over 2,500 rows 0.024,
    0.032, of 0.9 over 1,000 0.038."""
    codes = irm_parts(colored(root, version="irm"))
    noisy = codes["label"] != (codes["digit"] >= 5)
    assert abs(noisy.mean() - 0.25) < 0.022
    flipped = codes["color"] != codes["label"]  # green is the colour of 0-4, red that of 5-9
    for code, (e, within) in enumerate([(0.1, 0.024), (0.2, 0.032), (0.9, 0.038)]):
        in_environment = codes["environment"] == code
        assert abs(flipped[in_environment].mean() - e) < within
        assert abs(noisy[in_environment].mean() - 0.25) < 0.055
    assert abs(np.corrcoef(noisy, flipped)[0, 1]) < 0.05  # drawn apart
    other_codes = irm_parts(colored(root, version="irm", seed=1))
    assert (
        0.5 < (other_codes["label"] == codes["label"]).mean() < 0.7
    )  # 1 - 2 x 0.25 x 0.75 = 0.625


def test_irm_pixels_are_every_second_of_the_digit_in_the_channel_of_its_colour(root: str) -> None:
    data, wide = colored(root, version="irm"), colored(root, version="irm", channels=3)
    rows = np.array([5, 5999, 0, 2501, 77])
    for row, picture, three in zip(
        rows.tolist(), data.inputs(rows), wide.inputs(rows), strict=True
    ):
        small = np.array([[TRAIN[0][row][2 * i, 2 * j] for j in range(14)] for i in range(14)])
        shown = {"red": 0, "green": 1}[
            data.attribute("color").values[data.table.column("color")[row]]
        ]
        assert np.array_equal(picture[..., shown], small) and not picture[..., 1 - shown].any()
        assert np.array_equal(three[..., :2], picture) and not three[..., 2].any()
    assert len(set(data.table.column("color")[rows].tolist())) == 2


def test_irm_rows_are_flipped_whoever_stands_beside_them(root: str) -> None:
    """The rows that are kept have their own numbers as ids, so that a run's rows are MNIST's."""
    data = colored(root, version="irm")
    assert np.array_equal(data.ids, np.arange(6000))
    test_rows = data.keep({"environment": [0.9]})
    assert np.array_equal(test_rows.ids, np.arange(5000, 6000))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"version": "irm", "size": 14}, r"data\.size: must be 28 in version irm \(valid: 28\)"),
        ({"version": "irm", "paint": "ground"}, r"data\.paint: must be digit in version irm"),
        ({"channels": 2}, r"data\.channels: must be 3 in version ten \(valid: 3\)"),
        ({"version": "eleven"}, r"data\.version: unknown value 'eleven'.*ten, irm"),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_any_file_is_read(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        open_source("colored-mnist", {"root": "nowhere", **settings})


def test_a_copy_of_something_else_is_refused(root: str) -> None:
    gray_dataset = AttributedDataset(
        "mnist", AttributeTable((Attribute("label", (0, 1)),), np.zeros((1, 3), np.uint8))
    )
    with pytest.raises(DataError, match="the prepared copy of mnist holds other data"):
        ColoredMnist(root=root).finish(gray_dataset)
    with pytest.raises(
        DataError, match="there is no prepared copy of mnist in .*crosswind prepare colored-mnist"
    ):
        ColoredMnist(root="nowhere").load()


@pytest.mark.slow
def test_real_digits_in_irm_have_the_sizes_of_the_paper(tmp_path: Path) -> None:
    with np.load(real_data("mnist.npz"), allow_pickle=False) as arrays:
        digit_parts = [
            (arrays[f"{split_name}_images"], arrays[f"{split_name}_label"])
            for split_name in ("train", "test")
        ]
    write_mnist(tmp_path / "originals" / "mnist", digit_parts, packed=False)
    prepare(ColoredMnist(root=str(tmp_path)))
    data = colored(str(tmp_path), version="irm")
    codes = irm_parts(data)
    assert np.bincount(codes["environment"]).tolist() == [25_000, 25_000, 10_000]
    # By shape alone 0.75 can be reached everywhere; by colour alone 0.85 in training and 0.1 in
    # testing.
    train = codes["split"] == 0
    assert abs((codes["color"] == codes["label"])[train].mean() - 0.85) < 0.007
    assert abs((codes["color"] == codes["label"])[~train].mean() - 0.1) < 0.012
