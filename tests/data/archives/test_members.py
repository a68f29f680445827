"""Archives: read as they are, and refused in one sentence where they are not what an archive of data should be."""

from __future__ import annotations

import bz2
import copy
import gzip
import io
import lzma
import pickle
import stat
import tarfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from crosswind.core.errors import DataError
from crosswind.data.archives.members import open_archive
from crosswind.data.archives.parts import Bounds
from crosswind.data.archives.pickles import looks_pickled
from crosswind.data.archives.spool import spooled

FILES = {
    "train/cat/one.png": b"\x89PNG" + bytes(range(256)) * 20,
    "train/dog/two.png": b"",
    "read me.txt": b"words " * 300,
    "test/x.bin": np.random.default_rng(0).bytes(70_000),
}
KINDS = ["a.zip", "stored.zip", "lzma.zip", "a.tar", "a.tar.gz", "a.tgz", "a.tar.bz2", "a.tar.xz"]


def write(path: Path, files: dict[str, bytes]) -> Path:
    if path.suffix == ".zip":
        packed = {"stored.zip": zipfile.ZIP_STORED, "lzma.zip": zipfile.ZIP_LZMA}.get(path.name, zipfile.ZIP_DEFLATED)
        with zipfile.ZipFile(path, "w", packed) as archive:
            archive.mkdir("train")
            for name, data in files.items():
                archive.writestr(name, data)
        return path
    mode = {".tgz": "gz", ".tar": ""}.get(path.suffix, path.suffix[1:])
    with tarfile.open(path, f"w:{mode}") as archive:
        for name in (".", "train"):
            folder = tarfile.TarInfo(name)
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
        for name, data in files.items():
            entry(archive, name, data)
    return path


def entry(archive: tarfile.TarFile, name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data)
    archive.addfile(info, io.BytesIO(data))


def read(path: Path, bounds: Bounds | None = None) -> dict[str, bytes]:
    with open_archive(path, bounds) as archive:
        return {member.name: part.all() for member, part in archive.walk() if part is not None}


def refused(path: Path, words: str, bounds: Bounds | None = None) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read(path, bounds)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", KINDS)
def test_members_are_read_whole_in_order_one_by_one_and_unpacked(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, FILES)
    assert read(path) == FILES
    assert list(read(path)) == list(FILES)
    with open_archive(path) as archive:
        seen = {member.name: part is not None for member, part in archive.walk(lambda found: found.endswith(".png"))}
        assert seen == {found: found.endswith(".png") for found in FILES}
        assert archive.read("test/x.bin") == FILES["test/x.bin"]
        made = archive.unpack(tmp_path / "out", lambda found: found.startswith("t"))
        assert [place.relative_to(tmp_path / "out").as_posix() for place in made] == [n for n in FILES if n.startswith("t")]
        assert all(place.read_bytes() == FILES[place.relative_to(tmp_path / "out").as_posix()] for place in made)
        with pytest.raises(DataError, match="'train/cat/one.png', cannot be written to .*: File exists"):
            archive.unpack(tmp_path / "out")
        assert all(place.exists() for place in made)  # and what was there before is left alone
        with pytest.raises(DataError, match="has no member 'none' but read me.txt, test/x.bin"):
            archive.read("none")
        with pytest.raises(DataError, match="takes 70,000 bytes of memory, more than the 69,999 allowed"):
            archive.read("test/x.bin", limit=69_999)
        packed = spooled(archive, lambda found: found != "read me.txt", tmp_path)
    assert packed.names == [found for found in FILES if found != "read me.txt"]
    assert [packed.bytes(i) for i in range(len(packed))] == [FILES[found] for found in packed.names]
    assert sorted(place.name for place in tmp_path.iterdir()) == sorted([name, "out"])  # the spool has no name


OUTSIDE = ["../out", "/etc/out", "a/../../out", "a/..", "C:/out", "c:out", "..\\out", "a\\b", "a/\\b"]


@pytest.mark.parametrize(("name", "bad"), [*((kind, bad) for kind in ("a.zip", "a.tar.gz") for bad in OUTSIDE), ("a.tar", "./.")])
def test_a_name_that_leads_out_is_refused(name: str, bad: str, tmp_path: Path) -> None:
    refused(write(tmp_path / name, {"good": b"1", bad: b"2"}), "is not safe to read: its member '.*' leads out of the folder")
    with open_archive(write(tmp_path / name, {"good": b"1"})) as archive:  # and the same archive without it is read
        assert archive.read("good") == b"1"


def test_a_name_with_a_zero_in_a_zip_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zip", {"abXcd": b"1"})
    path.write_bytes(path.read_bytes().replace(b"abXcd", b"ab\0cd"))
    refused(path, "leads out of the folder")


def test_names_with_needless_dots_are_the_names_they_mean(tmp_path: Path) -> None:
    assert list(read(write(tmp_path / "a.tar", {"./a//b": b"1", "c/./d..e": b"2"}))) == ["a/b", "c/d..e"]


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (tarfile.SYMTYPE, "a symbolic link"),
        (tarfile.LNKTYPE, "a hard link"),
        (tarfile.CHRTYPE, "a device"),
        (tarfile.BLKTYPE, "a device"),
        (tarfile.FIFOTYPE, "a device, a pipe"),
    ],
)
def test_links_and_devices_in_a_tar_are_refused(kind: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        entry(archive, "good", b"1")
        entry(archive, "bad", kind=kind, link="/etc/passwd")
    refused(path, f"is not safe to read: its member 'bad' is {what}")
    with open_archive(path) as archive, pytest.raises(DataError, match=what):  # also where only the other is wanted
        archive.read("good")


@pytest.mark.parametrize(
    ("kind", "what"), [(stat.S_IFLNK, "a symbolic link"), (stat.S_IFCHR, "a device"), (stat.S_IFIFO, "a device")]
)
def test_links_and_devices_in_a_zip_are_refused(kind: int, what: str, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("bad")
        info.create_system, info.external_attr = 3, (kind | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    refused(path, f"is not safe to read: its member 'bad' is {what}")


def test_a_sparse_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        info = tarfile.TarInfo("bad")
        info.type = tarfile.GNUTYPE_SPARSE
        archive.addfile(info)
    refused(path, "its member 'bad' is a file with holes")


def test_a_doubled_member_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        entry(archive, "a/b", b"1")
        entry(archive, "a/./b", b"2")
    refused(path, "two members called 'a/b'")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as other:
        other.writestr("b", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            other.writestr("b", b"2")
    refused(tmp_path / "a.zip", "two members called 'b'")
    for name in ("b.zip", "b.tar"):
        refused(write(tmp_path / name, {"a/b": b"1", "a": b"2"}), "its member 'a' is a file and a folder")


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("secret", b"1")
        archive.getinfo("secret").flag_bits |= 1
    refused(path, "its member 'secret' is encrypted")


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tar.bz2", "a.tar.xz"])
def test_a_bomb_is_refused_by_its_ratio(name: str, tmp_path: Path) -> None:
    """4 MB of zeros unpack from less than 1/250 of that."""
    path = write(tmp_path / name, {"zeros": bytes(4 << 20)})
    assert path.stat().st_size < (4 << 20) / 250
    refused(path, r"its [\d,]+ bytes unpack to [\d,]+ or more, which is beyond 250 to 1", Bounds(free=1 << 20))
    with open_archive(path, Bounds(free=1 << 20, ratio=1e9)) as archive:
        assert archive.read("zeros") == bytes(4 << 20)


def test_a_bomb_is_refused_as_archives_are_opened(tmp_path: Path) -> None:
    refused(write(tmp_path / "a.zip", {"zeros": bytes(65 << 20)}), "which is beyond 250 to 1")


@pytest.mark.parametrize("name", KINDS)
def test_more_members_or_bytes_than_the_bounds_are_refused(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, FILES)
    entries = len(FILES) + (1 if path.suffix == ".zip" else 2)
    assert read(path, Bounds(members=entries, size=sum(map(len, FILES.values())))) == FILES
    refused(path, "more than 4 members", Bounds(members=4))
    refused(path, "take more than 70,000 bytes unpacked", Bounds(size=70_000))


def test_a_member_that_holds_more_than_it_declares_is_refused(tmp_path: Path) -> None:
    for name in ("a.zip", "stored.zip", "lzma.zip"):
        path = write(tmp_path / name, {"x": b"0123456789" * 1000})
        whole = path.read_bytes()
        size = (10_000).to_bytes(4, "little")
        assert whole.count(size) in (2, 4)  # in the member's own header and in the directory, packed and unpacked where stored
        for declared, words in ((9_000, "holds more than the 9,000 bytes that it declares"), (11_000, "cut short|damaged")):
            lie = declared.to_bytes(4, "little")
            # Of a stored member only the size unpacked is made a lie: the other says how many bytes lie in the file.
            changed = whole.replace(size + size, size + lie) if name == "stored.zip" else whole.replace(size, lie)
            assert changed != whole
            path.write_bytes(changed)
            refused(path, words)


def test_members_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(1000))
        again = copy.copy(archive.getinfo("a"))
        again.filename = "b"
        archive.filelist.append(again)
    refused(path, "its members 'a' and 'b' overlap")


def test_a_header_of_absurd_length_is_refused(tmp_path: Path) -> None:
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME):
        info = tarfile.TarInfo("long")
        info.type, info.size = kind, 1 << 32
        path = tmp_path / "a.tar.gz"
        with gzip.open(path, "wb") as file:
            file.write(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
        refused(path, "declares an absurd length")


class Trap:
    def __reduce__(self) -> tuple[object, ...]:
        return (pytest.fail, ("something was unpickled",))


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_a_pickle_is_refused_by_its_name_and_by_its_bytes(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, {"good": b"1", "labels.pkl": b"not even a pickle"})
    refused(path, "member 'labels.pkl', is a pickle by its name")
    with open_archive(path) as archive:  # it may lie there as long as nobody wants it
        assert archive.read("good") == b"1"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for value in (Trap(), {"labels": [1, 2]}, {b"data": np.zeros(3, np.uint8)}, ["a", "b"], np.arange(5)):
            held = pickle.dumps(value, protocol)
            refused(write(tmp_path / name, {"pixels.bin": held}), "member 'pixels.bin', is a pickle, whatever its name says")
            (tmp_path / "alone.tar.gz").write_bytes(held)
            refused(tmp_path / "alone.tar.gz", "it is a pickle, which could run code and is never opened")


def test_what_is_no_pickle_does_not_look_like_one() -> None:
    draw = np.random.default_rng(0)
    words = [
        b"cat\ndog\nfrog\n",
        b"airplane\nautomobile\n",
        b"class,path\n1,2\n",
        b"(x, y)\n",
        b"\x80" * 64,
        b"\x80\x02" * 32,
        b"[1, 2]",
    ]
    # Records of CIFAR-10 begin with a label below 10; random bytes would have to hit several marks at once.
    records = [bytes([label]) + draw.bytes(63) for label in range(10) for _ in range(200)]
    assert not any(map(looks_pickled, [*words, *records, *(draw.bytes(64) for _ in range(5_000)), *FILES.values()]))


@pytest.mark.parametrize("name", KINDS)
def test_a_truncated_archive_is_refused_wherever_it_is_cut(name: str, tmp_path: Path) -> None:
    whole = write(tmp_path / name, FILES).read_bytes()
    # A plain tar ends with blocks of zeros, of which the first says that this is the end.
    end = len(whole.rstrip(b"\0")) if name == "a.tar" else len(whole)
    cuts = sorted({0, 1, 4, 100, 511, 512, 513, 1024, 1536, end - 1, *range(2000, end, 4999)})
    assert len(cuts) >= 10
    for cut in cuts:
        (tmp_path / name).write_bytes(whole[:cut])
        refused(tmp_path / name, "cut short|not a whole|not an archive")


@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_archive_is_refused_or_read_as_it_was(name: str, tmp_path: Path) -> None:
    """A plain tar has no checksum of its members' bytes: there only the headers show damage, two of which are its beginning."""
    path = write(tmp_path / name, FILES)
    whole = path.read_bytes()
    draw = np.random.default_rng(1)
    refusals = 0
    for place in draw.integers(0, 1024 if name == "a.tar" else len(whole), 40):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ int(draw.integers(1, 256))]) + whole[place + 1 :])
        try:
            found = read(path)
        except DataError as error:
            refusals += 1
            assert str(path) in str(error)
        else:
            assert found == FILES
    assert refusals > 25


def test_what_is_no_archive_is_named_for_what_it_is(tmp_path: Path) -> None:
    good = write(tmp_path / "a.tar.gz", FILES).read_bytes()
    wrong = [
        ("b.tar.gz", b"<!DOCTYPE html><html>404</html>", "is not an archive: it is a web page"),
        ("b.zip", b"\n <html>404</html>", "is not an archive: it is a web page"),
        ("b.zip", good, "is not what its name says: it should be zip and its bytes are those of gzip"),
        ("b.tar", good, "is not what its name says: it should be tar and its bytes are those of gzip"),
        ("b.tar.gz", gzip.compress(b"words " * 500, mtime=0), "is not a whole tar archive"),
        ("b.tar.bz2", bz2.compress(b"\x89PNG" + bytes(5000)), "is not a whole tar archive"),
        ("b.tar.xz", lzma.compress(b""), "is not a whole tar archive"),
        ("b.npz", b"\x93NUMPY", "is not an archive: it is a file of npy"),
        ("b.zip", b"", "is not an archive: it is cut short at its beginning"),
    ]
    for name, data, words in wrong:
        (tmp_path / name).write_bytes(data)
        refused(tmp_path / name, words)
    refused(tmp_path / "none.zip", "there is no file")
    refused(tmp_path, "cannot be read: it is a folder, not a file")


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_what_is_refused_half_way_leaves_nothing_unpacked(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, {**FILES, "last/trap.bin": pickle.dumps([1, 2])})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_bytes(b"1")
    with open_archive(path) as archive, pytest.raises(DataError, match="is a pickle"):
        archive.unpack(tmp_path / "out")
    assert [place.name for place in (tmp_path / "out").rglob("*")] == ["mine"]
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 8])
    with pytest.raises(DataError, match="cut short|not a whole"), open_archive(path) as archive:
        archive.unpack(tmp_path / "new", lambda found: found in FILES)
    assert not (tmp_path / "new").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="cut short|not a whole"), open_archive(path) as archive:
        archive.unpack(tmp_path / "empty", lambda found: found in FILES)
    assert list((tmp_path / "empty").iterdir()) == []


def test_several_threads_read_a_zip_at_once(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    files = {f"{i}.bin": draw.bytes(int(draw.integers(0, 30_000))) for i in range(200)}
    path = write(tmp_path / "a.zip", files)
    with open_archive(path) as archive, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(archive.read, files)) == list(files.values())


def test_a_part_is_read_in_pieces_of_any_size(tmp_path: Path) -> None:
    sizes: list[Callable[[int], int]] = [lambda i: 1 + i % 97, lambda i: 63, lambda i: 65, lambda i: 1 << 24]
    for name in ("a.zip", "a.tar.xz"):
        for size in sizes:
            with open_archive(write(tmp_path / name, {"x": FILES["test/x.bin"]})) as archive:
                for _, part in archive.walk():
                    assert part is not None
                    pieces = []
                    while part.left:
                        pieces.append(part.read(size(len(pieces))))
                    assert b"".join(pieces) == FILES["test/x.bin"] and part.read(9) == b""
