"""Opening a copy: quick, without reading pixels; one that is not whole, or not what its name says,
is one sentence."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.prepared.toys import CHUNK, ROWS, Toy, write_originals

from crosswind.core.errors import DataError
from crosswind.core.registry import facts, listing
from crosswind.data.prepared import check, copies, open_copy, prepare
from crosswind.data.prepared.paths import copies_under, readiness


@pytest.fixture(params=["array", "jpeg"])
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of a copy of each store."""
    originals = write_originals(tmp_path / "originals")
    prepare(Toy(root=str(tmp_path / "root")), originals=str(originals), store=request.param)
    return tmp_path / "root/toy"


def source(copy: Path) -> Toy:
    return Toy(root=str(copy.parent))


def test_no_copy_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=(
            rf"^there is no prepared copy of toy in {tmp_path}: crosswind prepare toy --root"
            rf" {tmp_path}$"
        ),
    ):
        open_copy(Toy(root=str(tmp_path)))
    with pytest.raises(
        DataError, match="no prepared copy of toy in .*: crosswind prepare toy --root"
    ):
        open_copy(Toy(root=str(tmp_path / "no/where")))


def test_the_root_is_the_setting_or_the_variable_or_in_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for variable, root, place in (
        (None, None, tmp_path / "home/.cache/crosswind/data"),
        ("", None, tmp_path / "home/.cache/crosswind/data"),
        (str(tmp_path / "told"), None, tmp_path / "told"),
        ("~/told", None, tmp_path / "home/told"),
        (str(tmp_path / "told"), "~/mine", tmp_path / "home/mine"),
    ):
        monkeypatch.delenv("CROSSWIND_DATA", raising=False)
        if variable is not None:
            monkeypatch.setenv("CROSSWIND_DATA", variable)
        with pytest.raises(DataError, match=f"--root {re.escape(str(place))}$"):
            Toy(root=root).load()


def test_a_truncated_copy_is_refused_and_made_anew(copy: Path, tmp_path: Path) -> None:
    names = sorted(path.name for path in copy.iterdir() if path.name != "prepared.json")
    assert len(names) >= 2
    for name in names:
        size = (copy / name).stat().st_size
        os.truncate(copy / name, size - 1)
        with pytest.raises(
            DataError,
            match=(
                rf"is not whole: {name} has {size - 1:,} of {size:,} bytes: crosswind prepare toy"
                r" --root"
            ),
        ):
            open_copy(source(copy))
        (copy / name).unlink()
        with pytest.raises(
            DataError,
            match=(
                rf"cannot be read: {name}: No such file or directory: crosswind prepare toy --root"
            ),
        ):
            open_copy(source(copy))
        store = "jpeg" if "jpegs" in str(names) else "array"
        assert prepare(source(copy), originals=str(tmp_path / "originals"), store=store).made
        check(source(copy))


def test_a_card_that_is_none_is_one_sentence(copy: Path) -> None:
    card = copy / "prepared.json"
    good = json.loads(card.read_text())
    bad: list[Any] = [
        [],
        {},
        None,
        7,
        {"format": "1"},
        {**good, "format": 2},
        {**good, "version": 2},
        {**good, "settings": {"flip": True}},
    ]
    for key in good:
        bad += [
            {**good, key: value}
            for value in (None, -1, "x", [[]], {"a": {}}, {"pixels.npy": 1})
            if value != good[key]
        ]
        bad.append({name: value for name, value in good.items() if name != key})
    assert len(bad) > 100
    harmless = []
    for values in bad:
        card.write_text(json.dumps(values))
        try:
            open_copy(source(copy))
        except DataError as error:
            assert re.search(r": crosswind prepare toy --root \S+( --again)?$", str(error)), error
        else:
            harmless.append({key for key in values if values[key] != good[key]})
    # What only describes may be anything of its kind; the check compares the rest with the content.
    assert (
        set.union(*harmless) <= {"name", "parts", "totals", "fingerprint", "chunk_rows"}
        and len(harmless) < 12
    )
    for text in (b"", b"{", b'{"format": 1', b"\0", b"[" * 100_000, b"\xff\xfe"):
        card.write_bytes(text)
        for look in (open_copy, check):
            with pytest.raises(
                DataError,
                match=(
                    r"prepared.json cannot be read as the card of a prepared copy \(.*: crosswind"
                    r" prepare"
                ),
            ):
                look(source(copy))
    assert copies_under(copy.parent) == []


def test_a_copy_of_other_settings_under_this_name_is_refused(copy: Path) -> None:
    shutil.copytree(copy, copy.with_name("toy-flip=true"))
    with pytest.raises(
        DataError,
        match=(
            r"toy-flip=true holds toy with other settings, not what its name says: .* --set"
            r" flip=true$"
        ),
    ):
        open_copy(Toy(root=str(copy.parent), flip=True))


def test_nothing_is_unpickled(copy: Path) -> None:
    path = copy / "attributes.npz"
    np.savez(path, codes=np.array([[print]], dtype=object))
    card = json.loads((copy / "prepared.json").read_text())
    card["files"]["attributes.npz"] = path.stat().st_size
    card["file_checksums"]["attributes.npz"] = copies.checksum(path.read_bytes())
    (copy / "prepared.json").write_text(json.dumps(card))
    with pytest.raises(
        DataError, match=r"cannot be read \(.*Object arrays cannot be loaded.* --again$"
    ):
        open_copy(source(copy))


def test_opening_reads_no_pixels(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is mapped is not read: a copy whose pixels were all changed opens, and shows the
    change."""
    path = next(place for place in copy.iterdir() if place.name.startswith("pixels"))
    before = open_copy(source(copy)).fingerprint
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\0" * 5000)
    assert open_copy(source(copy)).fingerprint == before


def test_every_changed_byte_is_found_by_the_check(copy: Path) -> None:
    found = []
    assert check(source(copy)).n_rows == ROWS
    for path in sorted(copy.iterdir()):
        good = path.read_bytes()
        # A letter that only describes may change in the card: all that decides what is in the copy
        # is in the fingerprint.
        places = (
            [0, 5, len(good) // 3, len(good) // 2, len(good) - 1]
            if path.name != "prepared.json"
            else []
        )
        for place in places:
            path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
            with pytest.raises(
                DataError,
                match=r"(is damaged|cannot be read).*: crosswind prepare toy --root \S+ --again$",
            ) as raised:
                check(source(copy))
            found.append(str(raised.value))
            if path.name == "attributes.npz":
                with pytest.raises(
                    DataError, match=r"cannot be read.*attributes\.npz is not as it was written"
                ):
                    open_copy(source(copy))
        path.write_bytes(good)
    assert len(found) in (10, 15)
    words = r"rows (\d+) to (\d+) in pixels\.\w+ are not as they were written"
    rows = [tuple(map(int, match.groups())) for text in found if (match := re.search(words, text))]
    assert len(rows) >= 3 and rows[-1] == (ROWS // CHUNK * CHUNK, ROWS - 1)
    assert check(source(copy)).n_rows == ROWS


def test_a_card_that_was_changed_is_found_by_the_check(copy: Path) -> None:
    card = copy / "prepared.json"
    good = card.read_text()
    for old, new in (
        ('"cat"', '"cow"'),
        ('"fingerprint": "', '"fingerprint": "0'),
        ('"checksums": "', '"checksums": "0'),
    ):
        assert good.count(old) == 1
        card.write_text(good.replace(old, new))
        with pytest.raises(
            DataError, match=r"is damaged: .*: crosswind prepare toy --root \S+ --again$"
        ):
            check(source(copy))
    card.write_text(good)
    check(source(copy))


def test_a_damaged_jpeg_names_its_row(copy: Path) -> None:
    path = copy / "pixels.jpegs"
    if not path.exists():
        pytest.skip("of the other store")
    offsets = np.load(copy / "offsets.npy")
    data = bytearray(path.read_bytes())
    data[offsets[7] : offsets[7] + 4] = b"\0\0\0\0"
    path.write_bytes(bytes(data))
    opened = open_copy(source(copy))
    assert opened.inputs(np.array([6, 8])).shape == (2, 32, 32, 3)
    with pytest.raises(DataError, match=r"pixels.jpegs, row 7: cannot be read as a JPEG picture"):
        opened.inputs(np.array([6, 7]))


def test_rows_are_announced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(Toy(root=str(tmp_path)), originals=str(write_originals(tmp_path / "originals")))
    asked: list[int] = []
    plain: Callable[..., None] = copies._announce

    def counted(mapped: Any, places: Any, size: int) -> None:
        asked.extend((places // size).tolist())
        plain(mapped, places, size)

    monkeypatch.setattr(copies, "_announce", counted)
    opened = open_copy(Toy(root=str(tmp_path)))
    for rows in ([3, 1, 4], [1, 5, 9], [2, 6, 5, ROWS - 1]):
        assert np.array_equal(
            opened.inputs(np.array(rows)), np.load(tmp_path / "originals/pictures.npy")[rows]
        )
    assert asked == [3, 1, 4, 5, 9, 2, 6, ROWS - 1]


def said(root: Path) -> dict[str, str]:
    return {name: state.text for name, state in readiness(listing("sources"), root).items()}


def test_ready_is_what_can_be_opened(tmp_path: Path) -> None:
    originals, root = str(write_originals(tmp_path / "originals")), tmp_path / "root"
    before = said(root)
    assert {before["digits"], before["factors"], before["table"]} == {"always"} and before[
        "toy"
    ] == before["toy-in-red"] == "no"
    prepare(Toy(root=str(root), flip=True), originals=originals)
    assert said(root)["toy"] == said(root)["toy-in-red"] == "in part (flip=True)"
    prepare(Toy(root=str(root)), originals=originals)
    assert said(root)["toy"] == "ready (flip=True)"
    states = readiness([facts("sources", "toy")], root)
    assert [Path(copy["folder"]).name for copy in states["toy"].copies] == ["toy", "toy-flip=true"]
    prepare(Toy(root=str(root), words="a long word " * 3), originals=originals)
    assert said(root)["toy"] == "ready (2 with settings)"
    shutil.rmtree(readiness([facts("sources", "toy")], root)["toy"].copies[-1]["folder"])
    os.truncate(root / "toy/pixels.npy", 10)
    assert said(root)["toy"] == "in part (flip=True)"
    card = json.loads((root / "toy-flip=true/prepared.json").read_text())
    for changed in (
        {"version": 9},
        {"format": 9},
        {"source": "digits"},
        {"settings": []},
        {"files": []},
    ):
        (root / "toy-flip=true/prepared.json").write_text(json.dumps({**card, **changed}))
        assert said(root)["toy"] == "no", changed
    assert said(root)["digits"] == "always"
    assert len(before) >= 6
