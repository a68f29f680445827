"""dSprites: the grid, the colours, the drawing, and the archive read with care."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.factor_files import DSPRITES, dsprites_arrays

from crosswind.core.errors import DataError, InputError
from crosswind.data.archives import arrays as arrays_room
from crosswind.data.dataset import AttributedDataset
from crosswind.data.dsprites_renderer import drawn_covers
from crosswind.data.prepared import prepare
from crosswind.data.sources import factor_grids as dsprites
from crosswind.data.sources.base import open_source
from crosswind.data.sources.factor_grids import BACKGROUND_COLORS, COUNTS, OBJECT_COLORS, DSprites
from crosswind.studies.build import data_values, without_paths
from crosswind.studies.spec import DataSpec


@pytest.fixture(scope="module")
def data() -> AttributedDataset:
    return DSprites().load()


def row(shape: int, scale: int = 5, orientation: int = 0, x: int = 16, y: int = 16) -> int:
    return int(np.ravel_multi_index((shape, scale, orientation, x, y), COUNTS))


def covers(*rows: int, size: int = 64, antialias: bool = True) -> np.ndarray:
    shape, scale, orientation, x, y = np.unravel_index(np.array(rows), COUNTS)
    return drawn_covers(shape, (scale + 5) / 10, orientation, x, y, size, antialias)


@pytest.mark.slow
def test_rows_are_the_full_grid_in_the_archives_order(data: AttributedDataset) -> None:
    """Row 737,279 is the last of each; row 1 moves y, row 32 x, row 1,024 orientation, row 40,960
    scale, row 245,760 shape."""
    assert data.n_rows == 737_280
    codes = data.table.codes[:5]
    assert codes[:, -1].tolist() == [2, 5, 39, 31, 31]
    for factor_index, step in enumerate((245_760, 40_960, 1_024, 32, 1)):
        assert codes[:, step].tolist() == [int(i == factor_index) for i in range(5)]
    assert len(np.unique(np.ravel_multi_index(tuple(codes.astype(np.int64)), COUNTS))) == 737_280


def test_colours_are_even_inside_every_shape_and_scale(data: AttributedDataset) -> None:
    """40,960 latents in 9 pairs of colours: 4,551.1 each, so 4,551 or 4,552 in all 162 cells."""
    codes = data.table.codes.astype(np.int64)
    counts = np.bincount(
        np.ravel_multi_index((codes[0], codes[1], codes[5], codes[6]), (3, 6, 3, 3)), minlength=162
    )
    assert sorted(set(counts.tolist())) == [4551, 4552]
    color_counts = np.bincount(codes[5] * 3 + codes[6], minlength=9)
    # One pair has a row more in each of the 18 blocks: by chance 2 times, not the same one 18
    # times.
    assert 1 <= color_counts.max() - color_counts.min() <= 8


def test_colours_are_unrelated_to_place_and_change_with_the_seed(data: AttributedDataset) -> None:
    codes = data.table.codes
    for attribute in (2, 3, 4):
        shares = [
            np.bincount(codes[5][codes[attribute] == value], minlength=3)
            for value in range(COUNTS[attribute])
        ]
        expected = 737_280 / COUNTS[attribute] / 3
        assert np.abs(np.array(shares) - expected).max() < 6 * np.sqrt(expected)
    second_dataset = DSprites(seed=1).load()
    assert (
        0.30
        < (second_dataset.table.column("object_color") == data.table.column("object_color")).mean()
        < 0.36
    )
    assert second_dataset.fingerprint != data.fingerprint == DSprites().load().fingerprint


def test_what_stored_runs_are_found_by_stays(data: AttributedDataset) -> None:
    """A run's key holds the data's fingerprint and the settings that are not about places."""
    assert data.fingerprint == "f903f3b282d207152df8d75e6db750c9"
    values = data_values(DataSpec(source="dsprites", label="shape", attributes={}), "data", None)
    assert without_paths(values)["options"] == {"size": 64, "seed": 0, "antialias": True}


def test_the_deal_is_the_same_on_every_machine(data: AttributedDataset) -> None:
    assert data.table.digest() == "d0f862fe1dc981e8a9297874c41a4aed"


def test_colours_have_the_papers_values(data: AttributedDataset) -> None:
    rows = np.arange(0, 737_280, 7919)
    x = data.inputs(rows)
    codes = data.table.codes[:, rows]
    assert np.array_equal(x[:, 0, 0], np.array(list(BACKGROUND_COLORS.values()))[codes[6]])
    centre = x[np.arange(len(rows)), codes[4].astype(int) + 16, codes[3].astype(int) + 16]
    assert np.array_equal(centre, np.array(list(OBJECT_COLORS.values()))[codes[5]])
    assert OBJECT_COLORS["yellow"] == (255, 255, 0) and BACKGROUND_COLORS["orange"] == (
        255,
        153,
        51,
    )


def test_on_black_the_colours_are_pure_red_green_and_blue(data: AttributedDataset) -> None:
    """Wiles et al. 2022: the same latents and drawings, red, green or blue on black, as many of
    each."""
    black = DSprites(palette="on-black").load()
    assert [attribute.values for attribute in black.schema[5:]] == [
        ("red", "green", "blue"),
        ("black",),
    ]
    assert black.fingerprint != data.fingerprint
    assert (
        np.array_equal(black.table.codes[:6], data.table.codes[:6])
        and not black.table.codes[6].any()
    )
    rows = np.arange(0, 737_280, 7919)
    x, ink = black.inputs(rows), black.table.codes[5, rows]
    shape, scale, orientation, x_place, y_place = np.unravel_index(rows, COUNTS)
    cover = drawn_covers(shape, (scale + 5) / 10, orientation, x_place, y_place, 64, True)
    assert np.array_equal(
        np.take_along_axis(x, ink[:, None, None, None].astype(int), axis=3)[..., 0], cover
    )
    assert np.array_equal(x.sum(axis=3), cover)  # and nothing in the other two channels
    counts = np.bincount(black.table.codes[5], minlength=3)
    assert counts.sum() == 737_280 and np.ptp(counts) <= 3 * 18
    values = data_values(
        DataSpec(source="dsprites", options={"palette": "on-black"}, label="shape", attributes={}),
        "data",
        None,
    )
    assert without_paths(values)["options"] == {"size": 64, "seed": 0, "antialias": True}


def test_the_square_by_hand() -> None:
    """Scale 1, no turn, centre (32.5, 32.5), half side 10.5: from 22 to 43, 21 pixels a side, whole
    pixels only."""
    cover = covers(row(0))[0]
    expected = np.zeros((64, 64), dtype=np.uint8)
    expected[22:43, 22:43] = 255
    # A pixel whose edge is the shape's edge has its centre half a pixel inside: wholly covered.
    assert np.array_equal(cover, expected)
    # Scale 0.5: half side 5.25, so 11 whole pixels less a quarter on each side: the outer ring is
    # covered by 1/4 x 255 + 1/2.
    half = covers(row(0, scale=0))[0]
    assert half[32, 27:38].tolist() == [191, *[255] * 9, 191] or half[32, 26:39].tolist() == [
        0,
        191,
        *[255] * 9,
        191,
        0,
    ]


def test_areas_are_those_of_the_shapes() -> None:
    """Square (2 x 10.5)^2 = 441; ellipse pi x 14 x 7.5 = 329.9. The heart, unit 20: square 1/2 and
    two half discs of radius sqrt(2)/4, together 1/2 + pi/8 = 0.8927 of 400 = 357.1."""
    for shape, area in ((0, 441.0), (1, 329.87), (2, 357.08)):
        rows = [row(shape, 5, orientation) for orientation in range(40)]
        relative_areas = covers(*rows).astype(float).sum((1, 2)) / 255
        assert np.abs(relative_areas / area - 1).max() < 0.015
        hard = covers(*rows, antialias=False)
        assert set(np.unique(hard).tolist()) == {0, 255}
        assert np.abs(hard.astype(float).sum((1, 2)) / 255 / area - 1).max() < 0.05


def test_shapes_are_whole_at_every_place_and_turn() -> None:
    for shape in range(3):
        rows = [
            row(shape, 5, orientation, x, y)
            for orientation in range(40)
            for x in (0, 31)
            for y in (0, 31)
        ]
        cover_values = covers(*rows).astype(float)
        edge = np.concatenate(
            [
                cover_values[:, 0],
                cover_values[:, -1],
                cover_values[:, :, 0],
                cover_values[:, :, -1],
            ],
            axis=1,
        )
        assert edge.max() == 0
        middle = covers(*(row(shape, 5, orientation) for orientation in range(40))).astype(float)
        assert np.array_equal(
            cover_values.reshape(40, 4, -1).sum(2),
            np.repeat(middle.reshape(40, 1, -1).sum(2), 4, axis=1),
        )


def test_latents_move_turn_and_scale_the_shape() -> None:
    centred, right, down = covers(row(2, x=10, y=10), row(2, x=11, y=10), row(2, x=10, y=11))
    assert np.array_equal(np.roll(centred, 1, axis=1), right)
    assert np.array_equal(np.roll(centred, 1, axis=0), down)
    first, last, middle = covers(
        row(2, orientation=0), row(2, orientation=39), row(2, orientation=20)
    )
    assert np.array_equal(first, last)
    assert not np.array_equal(first, middle)
    areas = covers(*(row(1, scale) for scale in range(6))).astype(float).sum((1, 2))
    assert np.allclose(areas / areas[-1], (np.arange(5, 11) / 10) ** 2, rtol=0.02)


def test_the_heart_is_symmetric_with_its_tip_below() -> None:
    heart = covers(row(2))[0]
    about = heart[:, 32 - 15 : 32 + 16]
    assert np.array_equal(about, about[:, ::-1])
    widths = (heart > 127).sum(axis=1)
    present = np.flatnonzero(widths)
    assert widths[present[0]] > widths[present[-1]]


def test_pictures_alone_and_in_a_batch_are_the_same(data: AttributedDataset) -> None:
    rows = np.random.default_rng(0).integers(0, 737_280, 150)
    together = data.inputs(rows)
    assert np.array_equal(
        together, np.concatenate([data.inputs(rows[i : i + 1]) for i in range(150)])
    )
    assert data.inputs(rows[:0]).shape == (0, 64, 64, 3)


@pytest.mark.parametrize("size", [16, 32, 50, 96])
def test_other_sizes_show_the_same_share_of_the_picture(size: int) -> None:
    rows = [row(shape, 5, 7) for shape in range(3)]
    share = covers(*rows, size=size).astype(float).mean((1, 2))
    assert np.allclose(share, covers(*rows).astype(float).mean((1, 2)), rtol=0.05)


SMALL = (1, 3, 2, 2, 2, 2)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A whole archive of 48 pictures, in the place of 737,280, and the path where tests write
    others."""
    monkeypatch.setattr(dsprites, "ROWS", 48)
    monkeypatch.setattr(arrays_room, "BLOCK", 7 * 64 * 64)
    monkeypatch.setattr(dsprites, "COUNTS", SMALL[1:])
    path = tmp_path / "archive.npz"
    np.savez_compressed(path, **arrays())
    return path


def arrays() -> dict[str, Any]:
    pictures = np.random.default_rng(0).integers(0, 2, (48, 64, 64), dtype=np.uint8)
    return {
        "imgs": pictures,
        "latents_classes": np.stack(np.unravel_index(np.arange(48), SMALL), axis=1),
    }


def test_the_archives_pictures_are_read_as_they_are(small: Path) -> None:
    covers, fingerprint = dsprites._archive(str(small))
    rows = np.array([47, 0, 13])
    assert np.array_equal(covers(rows), arrays()["imgs"][rows] * 255)
    np.savez_compressed(
        small, imgs=1 - arrays()["imgs"], latents_classes=arrays()["latents_classes"]
    )
    assert dsprites._archive(str(small))[1] != fingerprint


def test_a_pickle_in_the_archive_is_never_opened(small: Path) -> None:
    """The original's `metadata` is a pickle: it may lie there, and neither of the two arrays may be
    one."""

    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return (pytest.fail, ("something was unpickled",))

    trap = np.array([Trap()], dtype=object)
    np.savez_compressed(small, metadata=trap, **arrays())
    assert dsprites._archive(str(small))[0](np.array([0])).shape == (1, 64, 64)
    np.savez_compressed(small, imgs=trap, latents_classes=arrays()["latents_classes"])
    with pytest.raises(DataError, match="'imgs' holds object"):
        dsprites._archive(str(small))


def test_wrong_archives_are_refused_at_once(small: Path) -> None:
    good = arrays()
    wrong = [
        ({"latents_classes": good["latents_classes"]}, "has no 'imgs' but latents_classes"),
        ({"imgs": good["imgs"]}, "has no 'latents_classes' but imgs"),
        (
            good | {"imgs": good["imgs"][:47]},
            r"'imgs' has shape \(47, 64, 64\), not \(48, 64, 64\)",
        ),
        (
            good | {"latents_classes": good["latents_classes"][:, 1:]},
            r"'latents_classes' has shape \(48, 5\)",
        ),
        (good | {"imgs": good["imgs"].astype(np.float32)}, "'imgs' holds float32"),
        (good | {"imgs": np.asfortranarray(good["imgs"])}, "'imgs' is stored by columns"),
    ]
    for held, words in wrong:
        np.savez_compressed(small, **held)
        with pytest.raises(DataError, match=words):
            dsprites._archive(str(small))
    small.write_bytes(b"not a zip")
    with pytest.raises(DataError, match="is not an npz archive"):
        dsprites._archive(str(small))
    with zipfile.ZipFile(small, "w") as archive:
        archive.writestr("imgs.npy", b"nothing")
        archive.writestr("latents_classes.npy", b"nothing")
    with pytest.raises(DataError, match="is not a NumPy array"):
        dsprites._archive(str(small))


def test_what_only_reading_shows_is_refused_when_read(small: Path) -> None:
    good = arrays()
    wrong = [
        (good | {"imgs": good["imgs"] * 2}, "pixels of 'imgs' are not all 0 or 1"),
        (
            good | {"latents_classes": good["latents_classes"][::-1].copy()},
            "not the full grid in its order",
        ),
    ]
    for held, words in wrong:
        np.savez_compressed(small, **held)
        covers, _ = dsprites._archive(str(small))
        with pytest.raises(DataError, match=words):
            covers(np.array([0]))


def test_the_archive_is_a_data_set_like_the_drawn_one(small: Path) -> None:
    data = DSprites(path=str(small)).load()
    x, codes = data.inputs(np.arange(48)), data.table.codes
    inks = np.array(list(OBJECT_COLORS.values()))[codes[5]][:, None, None]
    papers = np.array(list(BACKGROUND_COLORS.values()))[codes[6]][:, None, None]
    assert np.array_equal(x, np.where(arrays()["imgs"][..., None] == 1, inks, papers))


def write(folder: Path, **arrays: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / DSPRITES, **arrays)
    return folder


def test_the_original_is_prepared_in_white_and_coloured_when_opened(
    tmp_path: Path, data: AttributedDataset
) -> None:
    rows = np.sort(np.random.default_rng(0).choice(737_280, 90, replace=False))
    arrays = dsprites_arrays(rows)
    folder = write(tmp_path / "files", **arrays)  # with the pickle that the original holds
    source = DSprites(root=str(tmp_path), original=True)
    with pytest.raises(
        DataError, match="no prepared copy of dsprites in .*: crosswind prepare dsprites"
    ):
        source.load()
    with pytest.raises(
        DataError, match="the originals hold all 90 rows, where all 737,280 are published"
    ):
        prepare(source, originals=str(folder))
    prepared = prepare(
        DSprites(root=str(tmp_path), seed=3), originals=str(folder), accept_totals=True
    ).copy
    assert prepared.folder == tmp_path / "dsprites" and prepared.image_shape == (64, 64, 1)
    copy = source.load()
    assert copy.schema == data.schema and np.array_equal(
        copy.table.codes, data.table.codes[:, rows]
    )
    inks = np.array(list(OBJECT_COLORS.values()))[copy.table.codes[5]][:, None, None]
    papers = np.array(list(BACKGROUND_COLORS.values()))[copy.table.codes[6]][:, None, None]
    assert np.array_equal(
        copy.inputs(np.arange(90)), np.where(arrays["imgs"][..., None] == 1, inks, papers)
    )
    copied_dataset = open_source(
        "dsprites", {"root": str(tmp_path), "original": True, "seed": 3}
    )  # of the same copy
    assert np.array_equal(
        copied_dataset.table.codes[5:], DSprites(seed=3).load().table.codes[5:, rows]
    )
    assert len({copy.fingerprint, copied_dataset.fingerprint, data.fingerprint}) == 3
    assert (
        DSprites(root=str(tmp_path)).load().fingerprint == data.fingerprint
    )  # drawn, whatever is prepared


def test_archives_that_cannot_be_prepared_leave_no_copy(tmp_path: Path) -> None:
    good = dsprites_arrays(np.arange(30))
    classes = good["latents_classes"]
    wrong: list[tuple[dict[str, Any], str]] = [
        (
            good | {"latents_classes": classes + 3 * (np.arange(6) == 1)},
            "column 1 of 'latents_classes' is 3 in row .* 0, 1, 2",
        ),
        (
            good | {"latents_classes": classes - (np.arange(6) == 0)},
            "column 0 of 'latents_classes' is -1 in row 1, .* none of 0",
        ),
        (good | {"latents_classes": classes[[4] * 30]}, "two of its rows have the same factors"),
        (
            good | {"latents_classes": classes[:29]},
            r"'imgs' has shape \(30, 64, 64\), not \(29, 64, 64\)",
        ),
        (
            good | {"latents_classes": good["metadata"]},
            "'latents_classes' holds objects, which only unpickling could read",
        ),
        (good | {"imgs": good["imgs"] * np.uint8(255)}, "pixels of 'imgs' are not all 0 or 1"),
        ({"imgs": good["imgs"]}, "has no 'latents_classes' but imgs"),
    ]
    for arrays, words in wrong:
        with pytest.raises(DataError, match=words):
            prepare(
                DSprites(root=str(tmp_path)),
                originals=str(write(tmp_path / "files", **arrays)),
                accept_totals=True,
            )
    path = write(tmp_path / "files", **good) / DSPRITES
    original_bytes = path.read_bytes()
    for damaged in (
        original_bytes[:4000],
        original_bytes[:4000] + bytes(64) + original_bytes[4064:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="damaged|cut short|not a whole zip"):
            prepare(DSprites(root=str(tmp_path)), originals=str(path.parent), accept_totals=True)
    assert not (tmp_path / "dsprites").exists()


def test_bad_settings_name_their_field(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="data.path: there is no file"):
        open_source("dsprites", {"path": str(tmp_path / "none.npz")})
    with pytest.raises(InputError, match="data.path: there is no file"):
        open_source("dsprites", {"path": str(tmp_path)})
    with pytest.raises(
        InputError, match="data.size: the archive's pictures have 64 pixels a side, not 32"
    ):
        open_source("dsprites", {"path": str(tmp_path / "none.npz"), "size": 32})
    with pytest.raises(
        InputError, match="data.size: the archive's pictures have 64 pixels a side, not 32"
    ):
        open_source("dsprites", {"original": True, "size": 32})
    with pytest.raises(
        InputError,
        match=(
            r"data\.path: is read as it is, and original reads the prepared copy: give one of them"
        ),
    ):
        open_source("dsprites", {"original": True, "path": str(tmp_path / "none.npz")})
