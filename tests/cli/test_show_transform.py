"""`crosswind show transform NAME --image FILE --out PNG`: a sheet is written, or one sentence and
nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from crosswind.cli.main import _status


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Image.linear_gradient("L").resize((60, 50)).convert("RGB").save("a.png")
    (tmp_path / "b.png").write_bytes(b"no picture")
    (tmp_path / "folder.png").mkdir()
    return tmp_path


def test_a_sheet_is_written_and_repeats(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "show",
        "transform",
        "rotate",
        "--image",
        "a.png",
        "--set",
        "draw=fixed",
        "--set",
        "degrees=90",
        "--size",
        "24",
    ]
    for out in ("one.png", "two.png"):
        assert _status([*words, "--out", out]) == 0
        assert capsys.readouterr().out == f"The contact sheet is {out}\n"
    assert (here / "one.png").read_bytes() == (here / "two.png").read_bytes()
    assert (
        _status(
            ["show", "transform", "rotate", "--image", "a.png", "--size", "24", "--out", "3.png"]
        )
        == 0
    )
    assert (
        _status(
            [
                "show",
                "transform",
                "rotate",
                "--image",
                "a.png",
                "--size",
                "24",
                "--seed",
                "1",
                "--out",
                "4.png",
            ]
        )
        == 0
    )
    assert (here / "3.png").read_bytes() != (here / "4.png").read_bytes()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            "transform rotate --image missing.png --out x.png",
            "--image: there is no file missing.png",
        ),
        (
            "transform rotate --image b.png --out x.png",
            "--image: b.png cannot be read as a picture",
        ),
        (
            "transform rotate --image folder.png --out x.png",
            "--image: folder.png is a folder; name a picture",
        ),
        ("transform rotate --image a.png --out x.jpg", "--out: x.jpg must end in .png"),
        (
            "transform rotate --image a.png --out folder.png",
            "--out: folder.png is a folder; name a file",
        ),
        ("transform rotate --image a.png --out no/x.png", "--out: there is no folder no"),
        ("transform rotate --image a.png", "--out: is missing"),
        ("transform rotate --out x.png", "--image: is missing"),
        ("transform rotate --set degrees=3", "--set: goes with --image and --out"),
        (
            "transform rotate --image a.png --out x.png --set degres=3",
            "'degres', did you mean 'degrees'?",
        ),
        (
            "transform rotate --image a.png --out x.png --set degrees=400",
            "--set.degrees: must be in [-360, 360], not 400",
        ),
        ("transform rotate --image a.png --out x.png --set degrees", "not of the form key=value"),
        ("transform rotate --image a.png --out x.png --set degrees=[", "--set degrees"),
        (
            "transform fog --image a.png --out x.png --set severity=6",
            "--set.severity: must be in [1, 5], not 6",
        ),
        ("transform erase --image a.png --out x.png --set smallest=0.9", "smallest"),
        (
            "transform rotat --image a.png --out x.png",
            "NAME: unknown transform 'rotat', did you mean 'rotate'?",
        ),
        ("transform --image a.png --out x.png", "--image: draws a contact sheet"),
        ("method erm --image a.png --out x.png", "--image: draws a contact sheet"),
        (
            "transform rotate --image a.png --out x.png --size 4",
            "--size: must be in [8, 1024], not 4",
        ),
        ("transform rotate --image a.png --out x.png --size few", "--size"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    words: str, says: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(path.name for path in here.iterdir())
    assert _status(["show", *words.split()]) == 2
    printed = capsys.readouterr()
    assert (
        printed.err.startswith("error: ")
        and printed.err.count("\n") == 1
        and says in printed.err
        and not printed.out
    )
    assert sorted(path.name for path in here.iterdir()) == before


def test_one_setting_of_the_training_loop_is_shown_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _status(["show", "training", "lr"]) == 0
    shown = capsys.readouterr().out
    assert "learning rate" in shown
    assert "patience" not in shown
    assert _status(["show", "training", "lrr"]) == 2
    assert "setting of the training loop 'lrr', did you mean 'lr'?" in capsys.readouterr().err
