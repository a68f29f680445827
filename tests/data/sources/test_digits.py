"""The digits: real rows, even cells, visible attributes, and the same pixels every time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from crosswind.core.errors import DataError, InputError
from crosswind.core.types import digest_arrays
from crosswind.data.sources import digits
from crosswind.data.sources.base import open_source
from crosswind.data.sources.digits import BACKGROUNDS, INKS, SIZES, Digits, dealt


def cell_numbers(seed: int) -> np.ndarray:
    table = Digits(seed=seed).load().table
    return np.ravel_multi_index(tuple(table.codes[:4].astype(np.int64)), (10, 3, 3, 3))


@pytest.mark.parametrize("seed", [0, 1, 17])
def test_all_270_cells_are_even(seed: int) -> None:
    """1,797 rows in 270 cells: 6.66 a cell, so 6 or 7 everywhere; 93 x 6 + 177 x 7 = 1,797."""
    counts = np.bincount(cell_numbers(seed), minlength=270)
    assert sorted(set(counts.tolist())) == [6, 7]
    assert (counts == 7).sum() == 177


def test_every_value_is_as_frequent_as_the_others_for_every_digit() -> None:
    codes = Digits(seed=5).load().table.codes
    for digit in range(10):
        for attribute in (1, 2, 3):
            counts = np.bincount(codes[attribute, codes[0] == digit], minlength=3)
            assert counts.max() - counts.min() <= 1


def test_the_halves_and_one_size() -> None:
    data = Digits(one_size=True, size=16).load()
    assert np.array_equal(data.table.column("half"), data.table.column("digit") // 5)
    assert (
        data.attribute("size").values == ("large",)
        and data.fingerprint != Digits(size=16).load().fingerprint
    )
    dealt_too = Digits(size=16).load()
    large = np.flatnonzero(dealt_too.table.column("size") == 2)
    assert np.array_equal(data.inputs(large), dealt_too.inputs(large)) and len(large) > 500
    assert np.array_equal(data.table.column("ink"), dealt_too.table.column("ink"))


def test_dealing_is_even_for_any_class_size() -> None:
    label = np.repeat([0, 1, 2], [1, 5, 40])
    out = dealt(label, 3, 0)
    for value in range(3):
        combinations = np.bincount(
            np.ravel_multi_index(tuple(out[:, label == value]), (3, 3, 3)), minlength=27
        )
        assert combinations.max() - combinations.min() <= 1


def test_seed_decides_the_deal_and_nothing_else() -> None:
    first, second = Digits(seed=0).load(), Digits(seed=1).load()
    assert first.table.digest() == Digits(seed=0).load().table.digest()
    assert np.array_equal(first.table.column("digit"), second.table.column("digit"))
    for name in ("ink", "background", "size"):
        same = (first.table.column(name) == second.table.column(name)).mean()
        assert 0.25 < same < 0.42  # 1/3 by chance, sd 0.011
    assert len({first.fingerprint, second.fingerprint, Digits(size=64).load().fingerprint}) == 3
    assert first.fingerprint == Digits().load().fingerprint


def test_deal_and_pixels_are_the_same_on_every_machine() -> None:
    data = Digits().load()
    assert data.table.digest() == "0ca920c38c60d90d35ac2cb6212191ca"
    assert digest_arrays({"x": data.inputs(np.arange(1797))}) == "22b12c2a06ecd8d7a05196c0439da377"


def test_rows_are_scikit_learns() -> None:
    from sklearn.datasets import load_digits

    theirs = load_digits()
    grey, label = digits._read()
    assert np.array_equal(grey, theirs.images)
    assert np.array_equal(label, theirs.target)


def test_pictures_show_their_ink_background_and_size() -> None:
    data = Digits().load()
    x = data.inputs(np.arange(1797)).astype(int)
    codes = data.table.codes
    grounds = np.array(list(BACKGROUNDS.values()))[codes[2]]
    assert np.array_equal(x[:, 0, 0], grounds)
    inks = np.array(list(INKS.values()))[codes[1]]
    # The pixel furthest from the ground is the darkest stroke: nearly pure ink in every picture.
    furthest = np.abs(x - grounds[:, None, None]).sum(-1).reshape(1797, -1).argmax(1)
    darkest = x.reshape(1797, -1, 3)[np.arange(1797), furthest]
    assert np.abs(darkest - inks).max() < 90
    assert np.abs(darkest - inks).mean() < 5
    # Drawn in the middle: as much ground to the left as to the right, and above as below.
    middle = np.abs(x - grounds[:, None, None]).sum(-1).astype(float).mean(0)
    for axis in (0, 1):
        assert abs(np.average(np.arange(32), weights=middle.sum(axis)) - 15.5) < 0.6
    drawn = np.abs(x - grounds[:, None, None]).sum(-1) > 60
    heights = np.array([np.ptp(np.flatnonzero(picture.any(1))) + 1 for picture in drawn])
    for code, side in enumerate(SIZES.values()):
        assert abs(heights[codes[3] == code].mean() - side) < 0.15 * side


def test_bilinear_weights_by_hand() -> None:
    """16 pixels over 8 levels: pixel 0 has its centre at 0.25 - 0.5 = -0.25 levels: 3/4 of level 0,
    1/4 paper. 384 of 512."""
    weights = digits._bilinear(16)
    assert weights[0].tolist() == [384, 0, 0, 0, 0, 0, 0, 0]
    assert weights[1].tolist() == [384, 128, 0, 0, 0, 0, 0, 0]
    assert weights[15].tolist() == [0, 0, 0, 0, 0, 0, 0, 384]
    assert set(weights[1:-1].sum(axis=1).tolist()) == {512}


def test_pictures_alone_and_in_a_batch_are_the_same() -> None:
    data = Digits().load()
    rows = np.random.default_rng(0).permutation(1797)[:40]
    alone = np.concatenate([data.inputs(rows[i : i + 1]) for i in range(40)])
    assert np.array_equal(data.inputs(rows), alone)
    assert data.inputs(np.empty(0, dtype=np.int64)).shape == (0, 32, 32, 3)


@pytest.mark.parametrize("size", [8, 33, 64])
def test_other_sizes_are_drawn(size: int) -> None:
    assert Digits(size=size).load().inputs(np.arange(3)).shape == (3, size, size, 3)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> Iterator[object]:
    class Found:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: Found())
    digits._read.cache_clear()
    yield tmp_path
    digits._read.cache_clear()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read"),
        ("1,2,3\n", r"have shape \(1, 3\), not \(1797, 65\)"),
        ("\n".join([",".join(["17"] * 65)] * 1797), "outside grey levels 0 to 16"),
        ("a,b\n", "cannot be read"),
    ],
)
def test_a_file_that_is_not_the_digits_is_refused(
    elsewhere: object, text: str | None, words: str
) -> None:
    import gzip
    from pathlib import Path

    folder = Path(str(elsewhere)) / "datasets" / "data"
    folder.mkdir(parents=True)
    if text is not None:
        (folder / "digits.csv.gz").write_bytes(gzip.compress(text.encode()))
    with pytest.raises(DataError, match=words):
        Digits().load()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"size": "big"}, "data.train.size: must be a whole number"),
        ({"size": 4}, r"data.train.size: must be in \[8, 512\], not 4"),
        (
            {"seeds": 1},
            "data.train.seeds: unknown setting of source 'digits': 'seeds', did you mean 'seed'",
        ),
    ],
)
def test_settings_are_checked_by_their_place(settings: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        open_source("digits", settings, "data.train")


def test_a_source_made_in_python_is_checked_too() -> None:
    with pytest.raises(InputError, match="digits.size: must be a whole number"):
        Digits(size="big")  # type: ignore[arg-type]


def test_an_unknown_source_names_the_nearest() -> None:
    with pytest.raises(
        InputError, match="data.source: unknown source 'digit', did you mean 'digits'"
    ):
        open_source("digit")


@pytest.mark.slow
def test_planning_imports_nothing_heavy() -> None:
    code = (
        "import sys; from crosswind.data.sources.base import open_source as o;o('digits');"
        " o('dsprites'); o('factors', {'grid': {'a': 2}});print([m for m in ('torch', 'sklearn',"
        " 'scipy', 'PIL', 'polars', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
