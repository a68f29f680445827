"""Weights that a study of CIFAR-10 leaves, and the scales that start from them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from crosswind.cli.main import _status
from crosswind.core.types import InputSpec
from crosswind.models.build import build_model, unnamed
from crosswind.storage.store import Store

NETWORKS = {"resnet-8": 1, "resnet-8-strided": 2}
"""The files that the scales name -> stride of the network's first layer."""
QUICK = ["seeds=1", "training.steps=4", "training.validate_every=2", "training.lr=0.003"]


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_transfer_starts_from_what_the_study_of_cifar10_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _status(["run", "cifar10/start", "--scale", "tiny", "--out", "start"]) == 0
    strides = {}
    for file in Path("start").rglob("weights-best-id.safetensors"):
        knobs = json.loads((file.parent / "job.json").read_text())["spec"]["model"]["knobs"]
        strides[knobs["stride"]] = file
    assert sorted(strides) == sorted(NETWORKS.values())
    for name, stride in NETWORKS.items():
        shutil.copy(strides[stride], f"{name}.safetensors")

    settings = [word for setting in QUICK for word in ("--set", setting)]
    command = ["run", "wiles2022/unseen", "--scale", "transfer", *settings, "--out", "out"]
    assert _status(command) == 0
    assert "4 of 4 runs done, 0 running, 0 failed" in capsys.readouterr().err
    with Store.open(tmp_path / "out") as store:
        models = {run["labels"]["model"] for run in store.runs("wiles2022/unseen-transfer")}
    assert models == {"resnet", "resnet-cifar10"}


def test_both_networks_take_the_file_and_begin_alike(tmp_path: Path) -> None:
    """What a run keeps has a head of ten classes, and these have three."""
    spec = InputSpec.image(16, 16, 3)
    begun = build_model("cifar-resnet", {"depth": 1, "width": 8}, spec, unnamed(10), 5)
    file = tmp_path / "start.safetensors"
    save_file({f"model.{key}": value for key, value in begun.state_dict().items()}, str(file))
    assert len(load_file(file)) == len(begun.state_dict())
    for stride in NETWORKS.values():
        knobs = {"depth": 1, "width": 8, "stride": stride, "weights": str(file)}
        network = build_model("cifar-resnet", knobs, spec, unnamed(3), 0)
        for key, value in network.state_dict().items():
            if not key.startswith("fc."):
                assert torch.equal(value, begun.state_dict()[key]), key
        assert network.head.out_features == 3
