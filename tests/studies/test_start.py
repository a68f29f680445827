"""Weights that a study of CIFAR-10 leaves, and the scales that start from them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.studies.plans import whole_specs

from crosswind.cli.main import _status
from crosswind.core.types import InputSpec
from crosswind.models.build import build_model, unnamed
from crosswind.storage.store import Store
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

NETWORKS = {"resnet-8": 1, "resnet-8-strided": 2}
"""The files that the scales name -> stride of the network's first layer."""
STUDY = {
    "data": {"digits": {"source": "digits", "label": "digit", "attributes": ["ink"]}},
    "shifts": {"none": []},
    "methods": ["erm"],
    "seeds": 1,
}
SPEC = InputSpec.image(16, 16, 3)
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
    begun = build_model("cifar-resnet", {"depth": 1, "width": 8}, SPEC, unnamed(10), 5)
    file = tmp_path / "start.safetensors"
    save_file({f"model.{key}": value for key, value in begun.state_dict().items()}, str(file))
    assert len(load_file(file)) == len(begun.state_dict())
    for stride in NETWORKS.values():
        knobs = {"depth": 1, "width": 8, "stride": stride, "weights": str(file)}
        network = build_model("cifar-resnet", knobs, SPEC, unnamed(3), 0)
        for key, value in network.state_dict().items():
            if not key.startswith("fc."):
                assert torch.equal(value, begun.state_dict()[key]), key
        assert network.head.out_features == 3


def test_without_a_file_a_network_has_the_key_of_before_and_with_one_that_of_its_contents(
    tmp_path: Path,
) -> None:
    """Keys of runs that were done before networks took weights stay."""
    models = {"small": {"model": "cifar-resnet", "depth": 1}}
    study = {**STUDY, "models": models}
    (plain,) = make_plan(study_from(study)).runs
    (spec,) = whole_specs(make_plan(study_from(study)))
    assert spec["model"]["knobs"] == {
        "depth": 1,
        "width": 16,
        "dropout": 0.0,
        "norm": "batch",
        "stride": 1,
    }
    keys = []
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        file = tmp_path / folder / "w.safetensors"
        file.parent.mkdir()
        network = build_model("cifar-resnet", {"depth": 1}, SPEC, unnamed(10), seed)
        save_file(dict(network.state_dict()), str(file))
        started = {"small": {**models["small"], "weights": str(file)}}
        (run,) = make_plan(study_from({**study, "models": started})).runs
        keys.append(run.key)
    assert keys[0] == keys[1] and len({plain.key, *keys}) == 3
