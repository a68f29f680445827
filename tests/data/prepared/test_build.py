"""Making a copy: what is in it, what is refused, and that nothing is lost or taken for whole
whatever goes wrong."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin
from tests.data.prepared import toys
from tests.data.prepared.toys import CHUNK, ROWS, Toy, ToyInRed, content, crosswind, write_originals
from tests.drills import rounds

from crosswind.core.cards import Original
from crosswind.core.errors import DataError, InputError
from crosswind.core.types import InputSpec, file_hash
from crosswind.data.prepared import build, check, open_copy, prepare
from crosswind.data.prepared.build import claimed, stamp
from crosswind.data.prepared.paths import copy_folder
from crosswind.data.sources.image_trees import ImageFolder


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_originals(tmp_path_factory.mktemp("originals"))


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory, originals: Path) -> Path:
    """A copy of each store, undisturbed."""
    root = tmp_path_factory.mktemp("calm")
    with toys.registered():
        for store in ("array", "jpeg"):
            prepare(Toy(root=str(root / store)), originals=str(originals), store=store)
    return root


def left(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir()) if root.exists() else []


def test_the_copy_holds_what_the_originals_hold(tmp_path: Path, originals: Path) -> None:
    reports: list[tuple[str, int, int]] = []
    done = prepare(
        Toy(root=str(tmp_path)),
        originals=str(originals),
        workers=3,
        on_progress=lambda *words: reports.append(words),
    )
    assert (
        reports[0] == ("preparing", 0, ROWS)
        and reports[-1] == ("preparing", ROWS, ROWS)
        and len(reports) == 9
    )
    assert [rows for _, rows, _ in reports] == sorted(rows for _, rows, _ in reports)
    assert (done.made, done.rows_before, left(tmp_path)) == (True, 0, ["toy"])
    read, copy = Toy().read(originals).dataset, Toy(root=str(tmp_path)).load()
    assert copy.table.digest() == read.table.digest()
    assert copy.table.attribute("class").values == toys.CLASSES
    assert np.array_equal(copy.ids, np.arange(ROWS) * 2) and np.array_equal(
        copy.units, np.arange(ROWS) // 5
    )
    assert copy.image_shape == (32, 32, 3) and copy.name == "toy" and not copy.from_files
    rows = np.random.default_rng(0).permutation(ROWS)
    assert np.array_equal(copy.inputs(rows), read.inputs(rows))
    assert np.array_equal(np.load(tmp_path / "toy" / "pixels.npy"), read.inputs(np.arange(ROWS)))
    assert copy.inputs(np.empty(0, dtype=np.int64)).shape == (0, 32, 32, 3)
    card = json.loads((tmp_path / "toy" / "prepared.json").read_text())
    assert card["parts"] == card["totals"] == {"all": ROWS} and card["settings"] == {
        "flip": False,
        "words": "plain",
    }
    assert len(card["checksums"].split()) == -(-ROWS // CHUNK) == 8


def test_pixels_as_jpeg_are_smaller_and_close_and_read_by_several_threads(
    calm: Path, originals: Path
) -> None:
    read, copy = Toy().read(originals).dataset, Toy(root=str(calm / "jpeg")).load()
    rows = np.arange(0, ROWS, 7)
    exact = read.inputs(rows).astype(np.int64)
    assert np.abs(copy.inputs(rows) - exact).mean() < 1.5
    assert (calm / "jpeg/toy/pixels.jpegs").stat().st_size < (
        calm / "array/toy/pixels.npy"
    ).stat().st_size / 2
    with ThreadPoolExecutor(4) as pool:
        inputs_by_thread = list(pool.map(copy.inputs, [rows] * 8))
    assert all(np.array_equal(inputs, inputs_by_thread[0]) for inputs in inputs_by_thread)
    assert copy.fingerprint != Toy(root=str(calm / "array")).load().fingerprint


def test_each_picture_has_a_hash_of_its_exact_pixels(
    tmp_path: Path, calm: Path, originals: Path
) -> None:
    """Eight bytes of BLAKE2b a picture, of the pixels before JPEG; sizes and colours made later
    show the same picture."""
    read = Toy().read(originals).dataset
    picture = read.inputs(np.arange(ROWS))[7].tobytes()
    copies = [Toy(root=str(calm / store)).load() for store in ("array", "jpeg")]
    first, second = (copy.contents for copy in copies)
    assert first is not None and second is not None and np.array_equal(first, second)
    assert first[7] == int.from_bytes(hashlib.blake2b(picture, digest_size=8).digest(), "little")
    assert len(np.unique(first)) == len(np.unique(read.inputs(np.arange(ROWS)), axis=0))
    assert copies[0].origin == ToyInRed(root=str(calm / "array"), tint=3).load().origin == "toy"
    prepare(Toy(root=str(tmp_path), flip=True), originals=str(originals))
    assert Toy(root=str(tmp_path), flip=True).load().origin == "toy-flip=true"


def test_jpeg_is_of_the_quality_that_is_told_with_all_colours(calm: Path) -> None:
    data = (calm / "jpeg/toy/pixels.jpegs").read_bytes()
    jpeg_bytes = data[: np.load(calm / "jpeg/toy/offsets.npy")[1]]
    with Image.open(io.BytesIO(jpeg_bytes)) as picture:
        assert JpegImagePlugin.get_sampling(picture) == 0  # 4:4:4
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=95, subsampling=0)
        with Image.open(buffer) as same:
            assert same.quantization == picture.quantization  # type: ignore[attr-defined]


def test_a_copy_of_two_channels_cannot_be_jpeg(
    tmp_path: Path, originals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(self: Toy, folder: Path) -> Any:
        pictures, labels = np.load(folder / "pictures.npy"), np.load(folder / "labels.npy")
        table = toys.AttributeTable((toys.Attribute("class", toys.CLASSES),), labels[None])
        data = toys.AttributedDataset(
            "toy", table, lambda rows: pictures[rows][..., :2], InputSpec.image(32, 32, 2)
        )
        return toys.Reading(data, {"all": ROWS})

    monkeypatch.setattr(Toy, "read", read)
    with pytest.raises(
        InputError,
        match=r"store: jpeg holds pictures of 1 or 3 channels, and toy has 2 \(valid: array\)",
    ):
        prepare(Toy(root=str(tmp_path)), originals=str(originals), store="jpeg")
    prepare(Toy(root=str(tmp_path)), originals=str(originals))
    assert open_copy(Toy(root=str(tmp_path))).image_shape == (32, 32, 2)


def test_the_fingerprint_is_that_of_the_content(
    tmp_path: Path, calm: Path, originals: Path
) -> None:
    fingerprint = open_copy(Toy(root=str(calm / "array"))).fingerprint
    elsewhere = write_originals(tmp_path / "elsewhere")
    prepare(Toy(root=str(tmp_path / "b")), originals=str(elsewhere), workers=1)
    assert open_copy(Toy(root=str(tmp_path / "b"))).fingerprint == fingerprint
    assert content(tmp_path / "b/toy") == content(calm / "array/toy")
    fingerprints = {fingerprint}
    labels = np.load(elsewhere / "labels.npy")
    for name in ("pixel", "label", "flip"):
        changed = write_originals(tmp_path / name)
        if name == "pixel":
            pictures = np.load(changed / "pictures.npy")
            pictures[ROWS - 1, 31, 31, 2] ^= 1
            np.save(changed / "pictures.npy", pictures)
        elif name == "label":
            np.save(
                changed / "labels.npy", np.where(np.arange(ROWS) == 7, (labels + 1) % 3, labels)
            )
        source = Toy(root=str(tmp_path / name), flip=name == "flip")
        prepare(source, originals=str(changed))
        fingerprints.add(open_copy(source).fingerprint)
    assert len(fingerprints) == 4


def test_a_copy_is_named_by_the_settings_that_decide_what_is_in_it(
    tmp_path: Path, originals: Path
) -> None:
    root = str(tmp_path)
    assert copy_folder(Toy(root=root, tint=3)).name == "toy"
    assert copy_folder(Toy(root=root, flip=True)).name == "toy-flip=true"
    assert copy_folder(ToyInRed(root=root, flip=True)).name == "toy-flip=true"
    odd = {
        copy_folder(Toy(root=root, words=word)).name
        for word in ("../..", "../.-", "a/b", "x" * 500, "ünlaut", "a b")
    }
    assert len(odd) == 6
    assert all(
        re.fullmatch(r"toy-words=[A-Za-z0-9._=-]{1,120}", name) and name != ".." for name in odd
    )
    prepare(Toy(root=root, words="a b/c"), originals=str(originals))
    assert Toy(root=root, words="a b/c", tint=7).load().cache["tint"] == 7
    with pytest.raises(
        DataError,
        match=(
            r"no prepared copy of toy in .*: crosswind prepare toy --root \S+ --set 'words=a b/d'$"
        ),
    ):
        Toy(root=root, words="a b/d").load()
    assert (
        ToyInRed(root=root, words="a b/c").load().fingerprint
        == Toy(root=root, words="a b/c").load().fingerprint
    )


def test_other_totals_are_refused_unless_asked(tmp_path: Path) -> None:
    few = write_originals(tmp_path / "few", rows=90)
    root = tmp_path / "root"
    with pytest.raises(
        DataError,
        match=(
            r"^toy: the originals hold all 90 rows, where all 640 are published; --accept-totals"
            r" takes"
        ),
    ):
        prepare(Toy(root=str(root)), originals=str(few))
    assert left(root) == []
    prepare(Toy(root=str(root)), originals=str(few), accept_totals=True)
    assert Toy(root=str(root)).load().n_rows == 90 and left(root) == ["toy"]


def test_a_second_call_reads_nothing(
    tmp_path: Path, originals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, log = str(tmp_path / "root"), tmp_path / "log"
    prepare(Toy(root=root), originals=str(originals))
    before = content(tmp_path / "root/toy")
    monkeypatch.setenv("TOY_LOG", str(log))
    assert not prepare(Toy(root=root)).made and not prepare(Toy(root=root), store="array").made
    assert not log.exists()
    assert prepare(Toy(root=root), originals=str(originals), again=True).made and log.exists()
    assert content(tmp_path / "root/toy") == before
    assert prepare(Toy(root=root), originals=str(originals), store="jpeg").made
    assert open_copy(Toy(root=root)).fingerprint and not prepare(Toy(root=root)).made
    assert set(content(tmp_path / "root/toy")) == {
        "attributes.npz",
        "offsets.npy",
        "pixels.jpegs",
        "prepared.json",
    }
    monkeypatch.setattr(Toy, "version", 2, raising=False)
    with pytest.raises(
        DataError, match="another version of Crosswind: crosswind prepare toy --root"
    ):
        open_copy(Toy(root=root))
    assert (
        prepare(Toy(root=root), originals=str(originals)).made
        and open_copy(Toy(root=root)).n_rows == ROWS
    )
    assert left(tmp_path / "root") == ["toy"]


@pytest.mark.parametrize("store", ["array", pytest.param("jpeg", marks=pytest.mark.slow)])
def test_killed_half_way_the_next_call_goes_on(
    store: str, tmp_path: Path, calm: Path, originals: Path
) -> None:
    root, log = tmp_path / "root", tmp_path / "log"
    words = (
        "prepare",
        "toy",
        "--root",
        root,
        "--from",
        originals,
        "--store",
        store,
        "--workers",
        "2",
    )
    killed = crosswind(*words, TOY_KILL_AT=str(5 * CHUNK + 3))
    assert killed.returncode == -signal.SIGKILL
    assert left(root) == [".toy.part"]
    with pytest.raises(DataError, match="no prepared copy"):
        open_copy(Toy(root=str(root)))
    again = crosswind(*words, TOY_LOG=str(log))
    assert again.returncode == 0, again.stderr
    n_rows_kept = int(
        re.search(r"; ([\d,]+) rows were there from before", again.stdout)[1].replace(",", "")
    )  # type: ignore[index]
    row_ranges = sorted(tuple(map(int, line.split())) for line in log.read_text().splitlines())
    assert n_rows_kept >= CHUNK and n_rows_kept % CHUNK == 0
    assert (
        row_ranges[0][0] == n_rows_kept
        and row_ranges[-1][1] == ROWS - 1
        and len(row_ranges) == -(-(ROWS - n_rows_kept) // CHUNK)
    )
    assert content(root / "toy") == content(calm / store / "toy") and left(root) == ["toy"]


@rounds()
def test_killed_at_any_time(number: int, tmp_path: Path, calm: Path, originals: Path) -> None:
    chance = random.Random(number)
    root, store = tmp_path / "root", chance.choice(["array", "jpeg"])
    code = f"""
import os, threading, signal, sys
from tests.data.prepared.toys import Toy
from crosswind.data.prepared import prepare
threading.Timer(float(sys.argv[1]), lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
prepare(Toy(root={str(root)!r}), originals={str(originals)!r}, store={store!r}, workers=2)
os._exit(0)
"""
    for attempt in range(100):
        # Longer from try to try: on a busy machine no preparation ends within 0.2 seconds.
        seconds = chance.uniform(0, 0.2 * (1 + attempt / 5))
        done = subprocess.run(
            [sys.executable, "-c", code, str(seconds)],
            env=toys.ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        if (root / "toy").exists():
            assert content(root / "toy") == content(calm / store / "toy")
        if done.returncode == 0:
            break
    else:
        pytest.fail("never came to an end")
    check(Toy(root=str(root)))
    prepare(Toy(root=str(root)), originals=str(originals))
    assert left(root) == ["toy"]


def begun(
    root: Path, originals: Path, monkeypatch: pytest.MonkeyPatch, row_limit: int = 4 * CHUNK
) -> Path:
    """A copy whose making broke at a row; it is too soon for what was written before to be saved in
    passing."""
    with monkeypatch.context() as patched:
        patched.setenv("TOY_RAISE_AT", str(row_limit))
        patched.setenv("TOY_RAISES", "value")
        with pytest.raises(
            DataError, match=r"^toy: rows \d+ to \d+ cannot be read: ValueError: bad block$"
        ):
            prepare(Toy(root=str(root)), originals=str(originals), workers=1)
    assert left(root) == [".toy.part"]
    return root / ".toy.part"


def test_originals_that_changed_since_are_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_originals(tmp_path / "originals")
    begun(tmp_path / "a", folder, monkeypatch)
    assert prepare(Toy(root=str(tmp_path / "a")), originals=str(folder)).rows_before == 4 * CHUNK
    begun(tmp_path / "b", folder, monkeypatch)
    stamps = os.stat(folder / "pictures.npy")
    os.utime(folder / "pictures.npy", ns=(stamps.st_atime_ns, stamps.st_mtime_ns + 1))
    assert prepare(Toy(root=str(tmp_path / "b")), originals=str(folder)).rows_before == 0
    begun(tmp_path / "c", folder, monkeypatch)
    assert (
        prepare(Toy(root=str(tmp_path / "c")), originals=str(folder), store="jpeg").rows_before == 0
    )


@pytest.mark.parametrize(
    ("harm", "chunks"),
    [
        ("torn progress", 3),
        ("short pixels", 2),
        ("changed pixels", 1),
        ("no progress", 0),
        ("other identity", 0),
    ],
)
def test_a_damaged_beginning_is_used_as_far_as_it_is_whole(
    harm: str,
    chunks: int,
    tmp_path: Path,
    calm: Path,
    originals: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part_folder = begun(tmp_path, originals, monkeypatch)
    pixels, progress = part_folder / "copy/pixels.npy", part_folder / "progress"
    if harm == "torn progress":
        os.truncate(progress, progress.stat().st_size - 1)
    elif harm == "short pixels":
        os.truncate(pixels, 3 * 32 * 32 * 3 * CHUNK)
    elif harm == "changed pixels":
        data = bytearray(pixels.read_bytes())
        data[int(1.5 * 32 * 32 * 3 * CHUNK)] ^= 1
        pixels.write_bytes(data)
    elif harm == "no progress":
        progress.unlink()
    else:
        progress.write_bytes(b"0" * 32 + progress.read_bytes()[32:])
    assert prepare(Toy(root=str(tmp_path)), originals=str(originals)).rows_before == chunks * CHUNK
    assert content(tmp_path / "toy") == content(calm / "array/toy")


@pytest.mark.slow
def test_of_two_at_once_one_waits(tmp_path: Path, originals: Path) -> None:
    messages: list[str] = []
    words = [*toys.COMMAND, "prepare", "toy", "--root", str(tmp_path), "--from", str(originals)]
    with claimed(tmp_path / ".toy.part", lambda: messages.append("waited")):
        second_process = subprocess.Popen(
            words,
            env=toys.ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert (
            second_process.stderr is not None
            and "waiting for another process" in second_process.stderr.readline()
        )
        prepare(Toy(root=str(tmp_path), flip=True), originals=str(originals))  # another copy
    second_process.communicate(timeout=600)
    assert (
        second_process.returncode == 0
        and not prepare(Toy(root=str(tmp_path)), originals=str(originals)).made
        and not messages
    )


@contextlib.contextmanager
def disk(folder: Path, options: str) -> Iterator[Path]:
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False
    ).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_is_one_sentence_and_loses_nothing(
    tmp_path: Path, calm: Path, originals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = (calm / "jpeg/toy/pixels.jpegs").stat().st_size
    with disk(tmp_path / "disk", f"size={size // 8192 * 4096 + 65536}") as small:
        source = Toy(root=str(small))
        with pytest.raises(
            DataError,
            match=r"^cannot write \S+: No space left on device; what is prepared so far is kept",
        ):
            prepare(source, originals=str(originals), store="jpeg")
        assert left(small) == [".toy.part"]
        subprocess.run(["mount", "-o", f"remount,size={2 * size}", small], check=True)
        assert prepare(source, originals=str(originals), store="jpeg").rows_before >= CHUNK
        assert content(small / "toy") == content(calm / "jpeg/toy")


def test_a_disk_that_is_too_small_is_refused_at_once(
    tmp_path: Path, originals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = shutil.disk_usage(tmp_path)._replace(free=1_100_000)
    monkeypatch.setattr(build.shutil, "disk_usage", lambda _: free)
    with pytest.raises(
        DataError, match=r"^preparing toy takes 2.0 MB more in \S+, where 1.1 MB are free$"
    ):
        prepare(Toy(root=str(tmp_path)), originals=str(originals))


def test_a_folder_that_is_somebody_elses_is_left_alone(tmp_path: Path, originals: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/thesis.txt").write_text("all of it")
    with pytest.raises(
        DataError, match=r"toy holds 'thesis.txt', which is not of a prepared copy: move it away"
    ):
        prepare(Toy(root=str(tmp_path)), originals=str(originals), again=True)
    assert content(tmp_path / "toy") == {"thesis.txt": b"all of it"} and left(tmp_path) == ["toy"]


def test_a_root_that_cannot_be_written_is_one_sentence_and_its_copies_are_used(
    tmp_path: Path, calm: Path, originals: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"^\S+/file/toy: Not a directory$"):
        prepare(Toy(root=str(tmp_path / "file")), originals=str(originals))
    with disk(tmp_path / "disk", "size=64m") as root:
        shutil.copytree(calm / "array/toy", root / "toy")
        subprocess.run(["mount", "-o", "remount,ro", root], check=True)
        with pytest.raises(DataError, match=r"^cannot write \S+: Read-only file system"):
            prepare(Toy(root=str(root), flip=True), originals=str(originals))
        assert not prepare(Toy(root=str(root))).made
        assert open_copy(Toy(root=str(root))).inputs(np.arange(3)).any()
        check(Toy(root=str(root)))


def test_originals_that_cannot_be_read_are_named(
    tmp_path: Path, originals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(tmp_path / "root")
    with pytest.raises(
        DataError,
        match=(
            r"^toy needs pictures.npy, labels.npy in the folder \S+/originals/toy: write pictures"
        ),
    ):
        prepare(Toy(root=root))
    with pytest.raises(DataError, match=r"^toy needs labels.npy in the folder"):
        folder = tmp_path / "half"
        folder.mkdir()
        shutil.copy(originals / "pictures.npy", folder)
        prepare(Toy(root=root), originals=str(folder))
    with pytest.raises(DataError, match=r"nowhere is a folder that does not exist$"):
        prepare(Toy(root=root), originals=str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"pictures.npy is not a folder$"):
        prepare(Toy(root=root), originals=str(originals / "pictures.npy"))
    (folder / "labels.npy").mkdir()
    with pytest.raises(DataError, match=r"^toy: cannot read \S+labels.npy: Is a directory$"):
        prepare(Toy(root=root), originals=str(folder))
    (folder / "labels.npy").rmdir()
    (folder / "labels.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(DataError, match=r"half"):
        prepare(Toy(root=root), originals=str(folder))
    monkeypatch.setenv("TOY_RAISE_AT", "9")
    monkeypatch.setenv("TOY_RAISES", "os")
    with pytest.raises(DataError, match=r"^toy: cannot read pictures.npy: Input/output error$"):
        prepare(Toy(root=root), originals=str(originals))
    assert left(tmp_path / "root") == [".toy.part"]  # begun, and broken off


def test_what_is_missing_is_fetched(
    tmp_path: Path, originals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(originals))
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    reports: list[tuple[str, int, int]] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        files = [
            Original(
                name,
                f"{address}/{name}",
                (originals / name).stat().st_size,
                file_hash(originals / name),
            )
            for name in ("pictures.npy", "labels.npy")
        ]
        monkeypatch.setattr(Toy, "originals", lambda _: tuple(files))
        with pytest.raises(
            DataError,
            match=rf"^toy needs pictures.npy, labels.npy in the folder {tmp_path}: write pictures",
        ):
            prepare(
                Toy(root=str(tmp_path / "root")), originals=str(tmp_path)
            )  # the user's folder is not written to
        prepare(Toy(root=str(tmp_path / "root")), on_progress=lambda *words: reports.append(words))
        files[1] = Original("other.npy", f"{address}/labels.npy", 0, "0" * 64)
        with pytest.raises(DataError, match=r"other.npy has the sha256 \w+, not 0000"):
            prepare(Toy(root=str(tmp_path / "root")), again=True)
        server.shutdown()
    names = left(
        tmp_path / "root/originals/toy"
    )  # what was found out of their hashes is remembered beside them
    assert [name for name in names if not name.startswith(".")] == ["labels.npy", "pictures.npy"]
    assert ("fetching pictures.npy", files[0].size, files[0].size) in reports and reports[-1] == (
        "preparing",
        ROWS,
        ROWS,
    )
    assert open_copy(Toy(root=str(tmp_path / "root"))).n_rows == ROWS


def test_files_of_the_users_own_are_named_by_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, root = tmp_path / "birds", str(tmp_path / "root")
    for number in range(6):
        folder = top / ("owl" if number % 2 else "wren")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((9, 9, 3), number * 20, np.uint8)).save(folder / f"{number}.png")
    source = ImageFolder(path=str(top), root=root, size=8)
    assert prepare(source).made
    copy = source.load()
    assert copy.table.attribute("class").values == ("owl", "wren") and copy.inputs(
        np.arange(6)
    ).shape == (6, 8, 8, 3)
    assert np.array_equal(
        copy.inputs(np.arange(6)), ImageFolder(path=str(top), size=8).load().inputs(np.arange(6))
    )
    with pytest.raises(
        InputError,
        match="--from: image-folder reads what its setting 'path' names, not a folder of originals",
    ):
        prepare(ImageFolder(path=str(top), root=root), originals=str(tmp_path))
    assert stamp(source, tmp_path) == stamp(source, tmp_path)
    before = stamp(source, tmp_path)
    os.utime(top / "owl/1.png", ns=(0, 0))
    assert stamp(source, tmp_path) != before


def test_settings_of_prepare_are_checked(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"store: unknown store 'jpg', did you mean 'jpeg'\? \(valid: array, jpeg\)",
    ):
        prepare(Toy(root=str(tmp_path)), store="jpg")
    for workers in (0, True, 1.5):
        with pytest.raises(InputError, match="workers: must be a number of threads"):
            prepare(Toy(root=str(tmp_path)), workers=workers)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="cannot be the folder of prepared data"):
        prepare(Toy(root="a\0b"))


def test_chunks_are_read_ahead_within_bounds(
    tmp_path: Path, originals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that is slow holds the readers back: at most 2 x workers + 1 chunks are read and not
    written."""
    asked = 0
    plain = build._chunk

    def counted(*arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        return plain(*arguments)

    monkeypatch.setattr(build, "_chunk", counted)
    dataset = Toy().read(originals).dataset
    chunks = [np.arange(start, start + 20) for start in range(0, ROWS, 20)]
    chunk_iterator = build._chunks(dataset, chunks, "array", 1, "toy")
    for taken in range(1, 6):
        next(chunk_iterator)
        deadline = time.monotonic() + 5
        while asked < taken + 2 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert taken <= asked <= taken + 2
    chunk_iterator.close()
