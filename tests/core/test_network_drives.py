"""An SQLite store is not written on a drive that other machines may have too."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.models.test_sklearn_estimator import table_and_study

from crosswind.cli.main import _status
from crosswind.core import files
from crosswind.core.files import network_file_system
from crosswind.storage.store import Store

ROOT = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw"


def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    table = tmp_path / "mountinfo"
    table.write_text("\n".join([ROOT, *lines]) + "\n", encoding="utf-8")
    monkeypatch.setattr(files, "MOUNTS", table)


def line(place: Path | str, kind: str) -> str:
    escaped = str(place).replace(" ", "\\040")
    return f"30 22 0:40 / {escaped} rw shared:7 master:1 - {kind} server:/export rw"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("nfs4", "nfs4"), ("lustre", "lustre"), ("cifs", "cifs"), ("fuse.sshfs", "fuse.sshfs")]
    + [("xfs", ""), ("tmpfs", ""), ("overlay", ""), ("9p", "")],
)
def test_the_deepest_mount_decides(
    kind: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = tmp_path / "shared drive"
    mounts(tmp_path, monkeypatch, line(drive, kind), line(drive / "local", "ext4"))
    assert network_file_system(drive) == network_file_system(drive / "a" / "b.sqlite") == expected
    assert network_file_system(tmp_path / "shared drive of others") == ""
    assert network_file_system(drive / "local" / "x") == ""
    link = tmp_path / "link"
    link.symlink_to(drive)
    assert network_file_system(link / "store.sqlite") == expected


def test_a_later_mount_hides_an_earlier_one_and_no_table_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts(tmp_path, monkeypatch, line(tmp_path / "d", "nfs"), line(tmp_path / "d", "ext4"))
    assert network_file_system(tmp_path / "d") == ""
    monkeypatch.setattr(files, "MOUNTS", tmp_path / "no such file")
    assert network_file_system(tmp_path / "d") == ""


def test_a_store_there_is_refused_before_anything_is_written_and_may_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = table_and_study(tmp_path)
    there = tmp_path / "drive" / "out"
    with Store.open(there, create=True) as store:
        store.add_plan("s", {}, {}, [])
    mounts(tmp_path, monkeypatch, line(tmp_path / "drive", "nfs4"))
    for out in (there, tmp_path / "drive" / "new"):
        assert _status(["run", str(file), "--out", str(out)]) == 2
        refusal = capsys.readouterr().err
        assert "lies on a network drive (nfs4), where SQLite would be corrupted" in refusal
        assert "--store postgresql://HOST/NAME, with --out on this drive" in refusal
    assert not (tmp_path / "drive" / "new").exists()
    assert _status(["status", str(there)]) == 0
    assert "study s: 0 runs" in capsys.readouterr().out
