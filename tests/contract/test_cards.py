"""What every registered source must say of itself before any of its files is there."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
from tests.data.digit_files import drawn_digits, write_mnist, write_svhn, write_usps

from crosswind.core.cards import Card
from crosswind.core.registry import Facts, listing, load
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import open_source

SOURCES = {item.name: item for item in listing("sources") if item.module.startswith("crosswind.")}
# Drawn, or in a library: they are loaded here and compared with their cards.
HERE = {"digits": {}, "dsprites": {}, "shapes3d": {}}
HASHES = {"sha256": re.compile(r"[0-9a-f]{64}"), "md5": re.compile(r"[0-9a-f]{32}")}


def test_there_are_as_many_sources_as_there_were() -> None:
    assert len(SOURCES) >= 37 and set(HERE) <= set(SOURCES)


@pytest.mark.parametrize("known", SOURCES.values(), ids=lambda known: known.name)
def test_a_card_says_what_is_to_be_known(known: Facts) -> None:
    card = known.card
    assert card is not None, "no card"
    assert card.attributes and card.shape and card.licence and card.layout
    is_users_own = "your own" in card.licence or not card.totals
    assert is_users_own or (card.citation and sum(card.totals.values()) > 0)
    for values in card.attributes.values():
        assert values and isinstance(values, tuple | int | str)
    assert "\n" not in "".join(
        [card.licence, card.layout, card.citation, card.get, *card.used.values()]
    )


@pytest.mark.parametrize("known", SOURCES.values(), ids=lambda known: known.name)
def test_original_files_can_be_fetched_or_are_told_how_to_get(known: Facts) -> None:
    card = known.card
    assert card is not None
    for file in card.files:
        file_path = PurePosixPath(file.name)
        assert not file_path.is_absolute() and ".." not in file_path.parts and "\\" not in file.name
        assert file.size >= 0 and (not file.url or file.url.startswith(("https://", "http://")))
        for kind, pattern in HASHES.items():
            published_hash = getattr(file, kind)
            assert not published_hash or pattern.fullmatch(published_hash), (
                f"{file.name}: {kind} {published_hash}"
            )
        assert card.get or (file.url and (file.sha256 or file.md5)), (
            f"{file.name} can be got nowhere"
        )
    assert len({(file.name, file.variant) for file in card.files}) == len(card.files)


@pytest.mark.parametrize("name", HERE)
def test_a_card_agrees_with_the_data(name: str) -> None:
    data = open_source(name, HERE[name])
    agrees(SOURCES[name].card, data)
    assert sum(SOURCES[name].card.totals.values()) == data.n_rows  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "usps", "svhn"])
def test_a_card_agrees_with_what_is_read(name: str, tmp_path: Path) -> None:
    digit_parts = [drawn_digits(10, seed, 16 if name == "usps" else 28) for seed in (0, 1)]
    if name == "svhn":
        pictures = np.zeros((10, 32, 32, 3), np.uint8)
        write_svhn(
            tmp_path,
            {part_name: (pictures, np.arange(10)) for part_name in ("train", "test", "extra")},
        )
    else:
        (write_usps if name == "usps" else write_mnist)(tmp_path, digit_parts)
    source = load("sources", name)(**({"extra": True} if name == "svhn" else {}))
    reading = source.read(tmp_path)
    agrees(SOURCES[name].card, reading.dataset)
    assert set(reading.parts) == set(source.totals())
    assert " x ".join(map(str, reading.dataset.image_shape)) == SOURCES[name].card.shape  # type: ignore[union-attr]


def agrees(card: Card | None, data: AttributedDataset) -> None:
    assert card is not None and list(card.attributes) == [
        attribute.name for attribute in data.schema
    ]
    for attribute in data.schema:
        card_values = card.attributes[attribute.name]
        if isinstance(card_values, tuple):
            assert tuple(map(str, card_values)) == attribute.values
        elif isinstance(card_values, int):
            assert card_values == len(attribute)
