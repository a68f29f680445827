"""What a user may name in place of a file: a pipe, a device, a socket, a folder, a file of
gigabytes. Each ends in one sentence."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
import yaml
from tests.cli.test_bad_inputs import GOOD, ROWS, of_model, of_table, table

from crosswind.cli.main import _status


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)  # relative: the name of a socket has at most 107 characters


def folder(path: Path) -> None:
    path.mkdir()


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(5 << 30)  # of no blocks: it costs the disk nothing


KINDS: dict[str, Callable[[Path], None]] = {
    odd_kind.__name__: odd_kind for odd_kind in (pipe, device, listening, folder, large)
}

# Where the odd thing lies, and the command that names it: table.yaml names t.csv and images,
# weights.yaml w.safetensors.
PLACES: dict[str, tuple[str, str]] = {
    "plan": ("odd.yaml", "plan odd.yaml"),
    "run": ("odd.yaml", "run odd.yaml --out out"),
    "show study": ("odd.yaml", "show study odd.yaml"),
    "a table, CSV": ("odd.csv", "audit --train odd.csv --target t.csv --label y"),
    "a table, Parquet": ("odd.parquet", "audit --train t.csv --target odd.parquet --label y"),
    "a data set's table": ("t.csv", "plan table.yaml"),
    "a data set's picture": ("images/c.png", "plan table.yaml"),
    "weights": ("w.safetensors", "plan weights.yaml"),
    "a picture": ("odd.png", "show transform rotate --image odd.png --out sheet.png"),
    "frost": (
        "frost/frost1.png",
        "show transform frost --image whole.png --out sheet.png --set pictures=frost",
    ),
    "a store": ("odd.sqlite", "status odd.sqlite"),
    "a store's folder": ("store/store.sqlite", "report store"),
    "a store to write": ("store/store.sqlite", "run good.yaml --out store"),
    "originals": ("usps/usps.bz2", "prepare usps --from usps"),
    "originals, packed": ("cifar/cifar-10-python.tar.gz", "prepare cifar10 --from cifar"),
}


class Hangs(BaseException):
    """No `Exception`, which what is tested could take for one of the system's."""


@pytest.fixture
def bounded() -> Iterator[None]:
    """Twenty seconds of time: what waits for a pipe must fail and not hang."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", PLACES)
def test_one_sentence(
    case: str,
    kind: str,
    bounded: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    path, command = PLACES[case]
    if kind == "large" and path.endswith((".png", "w.safetensors", ".parquet")):
        pytest.skip(
            "a file that is not read whole: its first bytes say what it is, or a child with bounded"
            " memory reads it"
        )
    table(tmp_path, ROWS)
    (tmp_path / "images" / "a.png").rename(tmp_path / "whole.png")
    (tmp_path / "images" / "a.png").write_bytes((tmp_path / "whole.png").read_bytes())
    for name, text in (
        ("good.yaml", yaml.safe_dump(GOOD)),
        ("table.yaml", of_table()),
        ("weights.yaml", of_model("resnet18", weights="w.safetensors")),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    odd = tmp_path / path
    odd.parent.mkdir(exist_ok=True)
    odd.unlink(missing_ok=True)
    monkeypatch.chdir(odd.parent)
    KINDS[kind](odd)
    monkeypatch.chdir(tmp_path)

    assert _status(command.split()) == 2
    printed = capsys.readouterr()
    lines = [
        line for line in printed.err.splitlines() if not line.startswith("warning: ")
    ]  # of the plan
    assert len(lines) == 1 and lines[0].startswith("error: "), printed.err
    assert not (tmp_path / "out").exists() and not (tmp_path / "sheet.png").exists()
