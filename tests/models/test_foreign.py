"""Pickled weights of others are read as tensors or not at all, and once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from crosswind.core.errors import InputError
from crosswind.core.types import file_hash
from crosswind.models.networks.foreign import convert_weights


def pickled(path: Path, content: Any) -> tuple[Path, str]:
    torch.save(content, path)
    return path, file_hash(path)


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))


def test_the_same_tensors_come_out_under_their_names_or_those_of_a_network(tmp_path: Path) -> None:
    net = network()
    theirs = {f"_{key}": value.add(0.5) for key, value in net.state_dict().items()}
    into = tmp_path / "w.safetensors"
    for content in (theirs, {"state_dict": theirs, "epoch": 3}, {"model": theirs}):
        source, digest = pickled(tmp_path / "w.pth", content)
        assert convert_weights(source, into, sha256=digest) == file_hash(into)
        tensors = load_file(into)
        assert tensors.keys() == theirs.keys() and all(
            torch.equal(tensors[key], value) for key, value in theirs.items()
        )
    convert_weights(source, into, sha256=digest, like=net)
    assert all(torch.equal(value, theirs[f"_{key}"]) for key, value in load_file(into).items())
    assert load_file(into).keys() == net.state_dict().keys()


class Rude:
    """What a pickle may do when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def test_a_file_that_would_run_something_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    source, digest = pickled(
        tmp_path / "w.pth", {"a": torch.zeros(1), "b": Rude(tmp_path / "mark")}
    )
    with pytest.raises(InputError, match="^source: .*w.pth' is no file of tensors alone"):
        convert_weights(source, tmp_path / "w.safetensors", sha256=digest)
    assert not (tmp_path / "mark").exists() and not (tmp_path / "w.safetensors").exists()


def test_what_cannot_be_converted_is_one_sentence(tmp_path: Path) -> None:
    source, digest = pickled(tmp_path / "w.pth", dict(network().state_dict()))
    into = tmp_path / "w.safetensors"
    number, counted = pickled(tmp_path / "n.pth", {"a": torch.zeros(1), "epoch": 3})
    bare, single = pickled(tmp_path / "b.pth", torch.zeros(1))
    cut = tmp_path / "cut.pth"
    cut.write_bytes(source.read_bytes()[:500])
    for arguments, message in [
        ((source, into, "0" * 64), f"sha256: that of .* is {digest}, not 0000"),
        ((tmp_path / "none.pth", into, digest), "source: there is no file"),
        (
            (source, tmp_path / "w.pth", digest),
            "into: must end in .safetensors, which 'w.pth' does not",
        ),
        ((number, into, counted), "source: .*n.pth' holds 'epoch', which is no tensor"),
        ((bare, into, single), "source: .*b.pth' holds no weights by name"),
        ((cut, into, file_hash(cut)), "source: .*cut.pth' is no file of tensors alone"),
    ]:
        with pytest.raises(InputError, match=f"^{message}"):
            convert_weights(arguments[0], arguments[1], sha256=arguments[2])
    for like, message in [
        (
            nn.Conv2d(3, 5, 1),
            r"'0.weight' of shape \(4, 3, 1, 1\) where 'weight' of shape \(5, 3, 1, 1\) stands",
        ),
        (nn.Conv2d(3, 4, 1), "like: has 2 tensors, and 'w.pth' has 7"),
    ]:
        with pytest.raises(InputError, match=message):
            convert_weights(source, into, sha256=digest, like=like)
    assert not into.exists()


def test_what_is_named_is_whole_or_not_there(tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(2)}, tmp_path / "a.pth")
    (tmp_path / "taken.safetensors").mkdir()
    for into in (tmp_path / "nowhere" / "b.safetensors", tmp_path / "taken.safetensors"):
        with pytest.raises(InputError, match=r"into: '.*safetensors' cannot be written"):
            convert_weights(tmp_path / "a.pth", into, sha256=file_hash(tmp_path / "a.pth"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pth", "taken.safetensors"]
