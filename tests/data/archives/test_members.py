"""Archives: read as they are, and refused in one sentence where they are not what an archive of
data should be."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.data.spoiled import refused, refused_or_the_same

from crosswind.core.cards import Original
from crosswind.core.types import file_hash
from crosswind.data.archives import members
from crosswind.data.archives.checks import TOLD, telling, tried
from crosswind.data.archives.fetch import verified
from crosswind.data.archives.members import TarMembers, ZipMembers, walked

FILES = {
    "train/cat/one.png": b"\x89PNG" + bytes(range(256)) * 20,
    "train/dog/two.png": b"",
    "read me.txt": b"words " * 300,
    "test/x.bin": np.random.default_rng(0).bytes(70_000),
}
ZIPS, TARS = (
    ["a.zip", "stored.zip", "lzma.zip"],
    ["a.tar", "a.tar.gz", "a.tgz", "a.tar.bz2", "a.tar.xz"],
)


def write(path: Path, files: dict[str, bytes]) -> Path:
    if path.suffix == ".zip":
        packed = {"stored.zip": zipfile.ZIP_STORED, "lzma.zip": zipfile.ZIP_LZMA}.get(
            path.name, zipfile.ZIP_DEFLATED
        )
        with zipfile.ZipFile(path, "w", packed) as archive:
            archive.mkdir("train")
            for name, data in files.items():
                archive.writestr(name, data)
        return path
    mode = {".tgz": "gz", ".tar": ""}.get(path.suffix, path.suffix[1:])
    with tarfile.open(path, f"w:{mode}") as archive:
        for name in (".", "train"):
            entry(archive, name, kind=tarfile.DIRTYPE)
        for name, data in files.items():
            entry(archive, name, data)
    return path


def entry(
    archive: tarfile.TarFile,
    name: str,
    data: bytes = b"",
    kind: bytes = tarfile.REGTYPE,
    link: str = "",
) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data)
    archive.addfile(info, io.BytesIO(data))


def read(path: Path) -> dict[str, bytes]:
    if path.suffix == ".zip":
        archive = ZipMembers(path)
        return {name: archive.read(name) for name in archive.sizes}
    tar_members = TarMembers(path, lambda name: True)
    return {name: tar_members.view(i).tobytes() for i, name in enumerate(tar_members.names)}


@pytest.mark.parametrize("name", [*ZIPS, *TARS])
def test_members_are_read_whole_and_in_order(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, FILES)
    assert list(read(path).items()) == list(FILES.items())
    # What was unpacked has no name.
    assert [file.name for file in tmp_path.iterdir()] == [name]
    if path.suffix != ".zip":
        wanted_members = TarMembers(path, lambda name_of_member: name_of_member != "read me.txt")
        assert (
            wanted_members.names
            == [name_of_member for name_of_member in FILES if name_of_member != "read me.txt"]
            and len(wanted_members) == 3
        )
        assert wanted_members.view(0).tobytes() == FILES["train/cat/one.png"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ZIPS, *TARS])
def test_a_spoiled_archive_is_refused_or_read_as_it_was(name: str, tmp_path: Path) -> None:
    """A plain tar has no checksum of its members' bytes: damage there is not seen, so only cuts are
    tried."""
    path = write(tmp_path / name, FILES)
    if name == "a.tar":
        archive_bytes = path.read_bytes()
        for cut in (0, 100, 511, 512, 1024, 1536, 7000, len(archive_bytes.rstrip(b"\0")) - 1):
            path.write_bytes(archive_bytes[:cut])
            refused(path, "cut short|not a tar archive", read)
        return
    # Of a zip's directory, names and times are changed without notice; names are all that a reader
    # knows files by.
    refused_or_the_same(
        path,
        read,
        lambda files_read: (
            files_read == FILES or (".zip" in name and sorted(files_read) != sorted(FILES))
        ),
        35,
    )  # type: ignore[call-overload]


def test_links_and_devices_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        entry(archive, "good", b"1")
        for kind in (
            tarfile.SYMTYPE,
            tarfile.LNKTYPE,
            tarfile.CHRTYPE,
            tarfile.BLKTYPE,
            tarfile.FIFOTYPE,
            tarfile.GNUTYPE_SPARSE,
        ):
            entry(archive, f"bad {kind!r}", kind=kind, link="/etc/passwd")
    assert read(path) == {"good": b"1"}


def test_a_name_never_leads_anywhere(tmp_path: Path) -> None:
    files = {"../out": b"1", "/etc/out": b"2", "a/../../out": b"3"}
    for name in ("a.zip", "a.tar.gz"):
        (tmp_path / name).mkdir()
        assert sorted(read(write(tmp_path / name / name, files)).values()) == [b"1", b"2", b"3"]
        assert [path.name for path in (tmp_path / name).iterdir()] == [name]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "a.zip"]


def test_doubled_and_encrypted_members_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        entry(archive, "a/b", b"1")
        entry(archive, "./a/b", b"2")
    refused(path, "two members called 'a/b'", read)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as secret:
        secret.writestr("secret", b"1")
        secret.getinfo("secret").flag_bits |= 1
    refused(tmp_path / "a.zip", "member 'secret',.*encrypted", read)


def test_bombs_end_at_their_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member larger than its reader allows, an archive larger than any, and a name of 64 MB,
    which a child process reads."""
    path = write(tmp_path / "a.zip", {"zeros": bytes(4 << 20)})
    refused(
        path,
        r"has 4,194,304 bytes, more than the 1,048,576 allowed",
        lambda path: ZipMembers(path).read("zeros", 1 << 20),
    )
    archive_bytes = path.read_bytes()
    path.write_bytes(
        archive_bytes.replace((4 << 20).to_bytes(4, "little"), (1 << 20).to_bytes(4, "little"))
    )
    refused(path, "damaged", lambda path: ZipMembers(path).read("zeros", 1 << 20))
    info = tarfile.TarInfo("long")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 33
    with gzip.open(tmp_path / "b.tar.gz", "wb", 1) as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        for _ in range(64):
            file.write(bytes(1 << 20))
    refused(tmp_path / "b.tar.gz", "damaged", lambda path: tried(walked, path, 1 << 29))
    monkeypatch.setattr(members, "MOST", 1 << 20)
    refused(
        write(tmp_path / "a.tar.gz", {"zeros": bytes(4 << 20)}),
        "unpacks to more than 1,048,576 bytes",
        read,
    )


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("b.tar.gz", b"<!DOCTYPE html><html>404</html>", "is not a tar archive: it is a web page"),
        ("b.zip", gzip.compress(b"words", mtime=0), "is not a zip archive: it is a file of gzip"),
        ("b.tar.gz", gzip.compress(b"words " * 500, mtime=0), "is damaged or cut short"),
        ("b.tar.xz", lzma.compress(b""), "is damaged or cut short"),
        ("b.zip", b"", "is not a zip archive: it is cut short at its beginning"),
    ],
)
def test_what_is_no_archive_is_named_for_what_it_is(
    name: str, data: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    refused(tmp_path / name, words, read)


@pytest.mark.slow
def test_reading_a_large_archive_is_told_as_it_goes_on_and_so_is_the_child_that_tries_it(tmp_path):
    path, progress = tmp_path / "all.tar.gz", []
    with tarfile.open(path, "w:gz", compresslevel=0) as tar:
        for number in range(2):
            info = tarfile.TarInfo(f"{number}.bin")
            info.size = TOLD + 1000
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    size = path.stat().st_size
    with telling(lambda *words: progress.append(words)):
        tried(walked, path)
        assert len(TarMembers(path, lambda name: True)) == 2
        verified(Original(path.name, sha256=file_hash(path), size=size), path)
    stages = ["checking all.tar.gz", "reading all.tar.gz", "checking all.tar.gz"]
    assert [stage for stage, _, _ in progress] == [stage for stage in stages for _ in range(2)]
    assert {total for _, _, total in progress} == {size} and all(
        size / 3 < done <= size for _, done, _ in progress
    )
