"""Published weights: by torchvision's names and from safetensors files, checked before they are
taken."""

from __future__ import annotations

import hashlib
import json
import urllib.error
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.training.world import DATA, split

from crosswind.cli.main import _status
from crosswind.core.errors import InputError
from crosswind.core.types import InputSpec, file_hash
from crosswind.methods.erm import ERM
from crosswind.models.build import build_model, unnamed
from crosswind.models.networks import pretrained
from crosswind.models.networks.pretrained import Normalise, torchvision_weights
from crosswind.storage.store import Store
from crosswind.training.loop import fit
from crosswind.training.settings import ModelSpec, TrainingSettings

SHAPE = InputSpec.image(32, 32, 3)


def saved(
    path: Path, name: str = "resnet18", classes: int = 5, seed: int = 9, **changes: Any
) -> tuple[Path, dict[str, torch.Tensor]]:
    weights = {**build_model(name, {}, SHAPE, unnamed(classes), seed).state_dict(), **changes}
    weights = {
        key: value.clone().contiguous() for key, value in weights.items() if value is not None
    }
    save_file(weights, str(path))
    return path, weights


def built(
    path: Path | str,
    name: str = "resnet18",
    classes: int = 5,
    shape: InputSpec = SHAPE,
    **knobs: Any,
) -> Any:
    return build_model(name, {"weights": str(path), **knobs}, shape, unnamed(classes), 0)


@pytest.mark.parametrize(
    "name",
    [
        *("resnet18", "vit-tiny", "cnn", "small-cnn", "cifar-resnet", "resnet-w16", "nin", "vgg"),
        *("mlp", pytest.param("resnet50", marks=pytest.mark.slow)),
    ],
)
def test_a_file_is_taken_whole_and_a_head_of_other_classes_is_made_anew(
    tmp_path: Path, name: str
) -> None:
    path, weights = saved(tmp_path / "w.safetensors", name)
    same = built(path, name).state_dict()
    assert (
        all(torch.equal(value, same[key]) for key, value in weights.items())
        and same.keys() == weights.keys()
    )
    other_head, fresh = built(path, name, classes=3), build_model(name, {}, SHAPE, unnamed(3), 0)
    heads = {key for key in weights if key.startswith(("fc.", "heads."))}
    assert len(heads) == 2
    for key, value in other_head.state_dict().items():
        assert torch.equal(value, fresh.state_dict()[key] if key in heads else weights[key]), key


@pytest.mark.slow
def test_files_of_another_origin(tmp_path: Path) -> None:
    """What a run keeps, with its state; a file without the counters of batch norm; a file without a
    head."""
    _, weights = saved(tmp_path / "w.safetensors")
    run_tensors = {f"model.{key}": value for key, value in weights.items()} | {
        "state/log_q": torch.zeros(2),
        "other.x": torch.zeros(1),
    }
    older = {
        key: value for key, value in weights.items() if not key.endswith("num_batches_tracked")
    }
    headless = {key: value for key, value in weights.items() if not key.startswith("fc.")}
    for number, tensors in enumerate((run_tensors, older, headless)):
        path = tmp_path / f"{number}.safetensors"
        save_file(tensors, str(path))
        assert torch.equal(
            built(path).state_dict()["layer4.1.conv2.weight"], weights["layer4.1.conv2.weight"]
        )
    assert torch.equal(
        built(path).fc.weight, build_model("resnet18", {}, SHAPE, unnamed(5), 0).fc.weight
    )


def test_cnn_starts_from_a_small_cnn(tmp_path: Path) -> None:
    path, weights = saved(tmp_path / "w.safetensors", "small-cnn")
    x = torch.randn(3, 3, 32, 32)
    assert torch.equal(
        built(path, "cnn").eval()(x), build_model("small-cnn", {}, SHAPE, unnamed(5), 9).eval()(x)
    )
    assert all(
        torch.equal(value, weights[key]) for key, value in built(path, "cnn").state_dict().items()
    )
    with pytest.raises(InputError, match="no 'block4.0.weight', the first that is missing"):
        built(path, "cnn", depth=4)


@pytest.mark.slow
def test_what_does_not_fit_is_one_sentence_that_names_the_first_difference(tmp_path: Path) -> None:
    first = torch.zeros(64, 3, 3, 3)
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        (
            {"conv1.weight": first},
            {},
            r"'conv1.weight' is \(64, 3, 3, 3\) there and \(64, 3, 7, 7\) here",
        ),
        (
            {"layer1.0.bn1.weight": None},
            {},
            "it has no 'layer1.0.bn1.weight', the first that is missing",
        ),
        (
            {"layer9.weight": torch.zeros(1)},
            {},
            "does not fit the model, which has no 'layer9.weight'",
        ),
        (
            {"fc.weight": torch.zeros(4, 100)},
            {"classes": 3},
            r"'fc.weight' is \(4, 100\) there and \(3, 512\) here",
        ),
        (
            {},
            {"stem": "small"},
            r"'conv1.weight' is \(64, 3, 7, 7\) there and \(64, 3, 3, 3\) here",
        ),
        (
            {},
            {"shape": InputSpec.image(32, 32, 1)},
            r"'conv1.weight' is \(64, 3, 7, 7\) there and \(64, 1, 7, 7\) here",
        ),
    ]
    for changes, knobs, message in cases:
        path, _ = saved(tmp_path / "w.safetensors", **changes)
        with pytest.raises(InputError, match=f"^model.weights: .*{message}"):
            built(path, **knobs)
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(path.read_bytes()[:1000])
    for weights_path, message in [
        (broken, "cannot be read as safetensors"),
        (tmp_path / "none.safetensors", "there is no file"),
        (
            "IMAGENET1K_V9",
            (
                "unknown weights of model 'resnet18': 'IMAGENET1K_V9', did you mean"
                " 'IMAGENET1K_V1'.*FILE.safetensors"
            ),
        ),
        ("weights.pth", "unknown weights of model 'resnet18': 'weights.pth'"),
    ]:
        with pytest.raises(InputError, match=f"^model.weights: .*{message}"):
            built(weights_path)
    with pytest.raises(
        InputError,
        match="model.inputs: ImageNet's means are of 3 channels, and these images have 1",
    ):
        built(path, shape=InputSpec.image(32, 32, 1), inputs="imagenet")


@pytest.mark.slow
def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    path, _ = saved(tmp_path / "w.safetensors")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert file_hash(path) == digest
    built(path, weights_sha256=digest)
    saved(path, seed=10)
    with pytest.raises(InputError, match=f"has changed: its sha256 is no longer {digest[:12]}"):
        built(path, weights_sha256=digest)


def test_weights_by_name_come_from_the_cache_checked_by_their_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    torch.save({"w": torch.arange(3.0)}, tmp_path / "made")
    prefix = hashlib.sha256((tmp_path / "made").read_bytes()).hexdigest()[:8]
    (tmp_path / "made").rename(tmp_path / "checkpoints" / f"net-{prefix}.pth")
    assert torchvision_weights("V1", f"https://example.org/net-{prefix}.pth")["w"].tolist() == [
        0,
        1,
        2,
    ]
    (tmp_path / "checkpoints" / "net-00000000.pth").write_bytes(b"not it")
    with pytest.raises(
        InputError,
        match="net-00000000.pth is damaged: its sha256 does not begin with 00000000; remove it",
    ):
        torchvision_weights("V1", "https://example.org/net-00000000.pth")


@pytest.mark.parametrize(
    ("name", "file"), [("resnet18", "resnet18-f37072fd.pth"), ("resnet50", "resnet50-0676ba61.pth")]
)
def test_weights_by_name_without_a_network_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, file: str
) -> None:
    def offline(url: str, *given: Any, **named: Any) -> None:
        assert url.endswith(file) and named["hash_prefix"] == file[-12:-4]
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    with pytest.raises(InputError) as caught:
        built("IMAGENET1K_V1", name)
    text = str(caught.value)
    assert text.startswith(
        "model.weights: IMAGENET1K_V1 cannot be downloaded (<urlopen error no route to host>); put "
        + file
    )
    assert "\n" not in text and text.endswith("or name a safetensors file")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "theirs", "side"),
    [
        ("resnet18", "resnet18", 64),
        ("resnet50", "resnet50", 64),
        ("resnet101", "resnet101", 64),
        ("vit-b-16", "vit_b_16", 48),
    ],
)
def test_a_published_file_gives_torchvisions_logits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, theirs: str, side: int
) -> None:
    """torchvision's own class with random weights, saved as torchvision saves it, in the cache
    under a name with its hash.

    Both see a picture by ImageNet's means, torchvision's through its own transforms; the
    transformer's is resized to 224.
    """
    from torchvision.models import get_model, get_model_weights
    from torchvision.transforms.v2 import functional as tv

    torch.manual_seed(3)
    their = get_model(theirs, weights=None).eval()
    with torch.no_grad():
        for key, value in their.state_dict().items():
            if "running_var" in key:
                value.uniform_(0.5, 1.5)
            elif key.endswith(
                "head.weight"
            ):  # a transformer's begins at 0, where nothing would be compared
                value.normal_(std=0.1)
    (tmp_path / "checkpoints").mkdir()
    torch.save(their.state_dict(), tmp_path / "made")
    file = f"{theirs}-{file_hash(tmp_path / 'made')[:8]}.pth"
    (tmp_path / "made").rename(tmp_path / "checkpoints" / file)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr(
        get_model_weights(theirs)["IMAGENET1K_V1"].value, "url", f"https://example.org/{file}"
    )
    x = torch.rand(2, 3, side, side)
    ours = built("IMAGENET1K_V1", name, 1000, InputSpec.image(side, side, 3)).eval()
    resized_x = tv.resize(x, [224, 224], antialias=True) if name == "vit-b-16" else x
    with torch.inference_mode():
        expected = their(
            tv.normalize(resized_x, list(pretrained.IMAGENET_MEAN), list(pretrained.IMAGENET_SD))
        )
        our_logits = ours(x * 2 - 1)
        assert torch.allclose(our_logits, expected, rtol=0, atol=1e-4 * float(expected.abs().max()))
        tuned = built("IMAGENET1K_V1", name, 7, InputSpec.image(side, side, 3)).eval()
        assert torch.equal(tuned.features(x), ours.features(x)) and tuned(x).shape == (2, 7)


@pytest.mark.slow
def test_weights_by_name_see_imagenets_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Value 0.5 in red is 0 in (-1, 1), and (0.5 - 0.485) / 0.229 = 0.0655 as torchvision's weights
    were trained."""
    normalised = Normalise()(torch.zeros(1, 3, 1, 1)).flatten().tolist()
    assert normalised == pytest.approx([0.015 / 0.229, 0.044 / 0.224, 0.094 / 0.225], abs=1e-6)
    weights = build_model("resnet18", {}, SHAPE, unnamed(1000), 4).state_dict()
    monkeypatch.setattr(pretrained, "torchvision_weights", lambda name, url: weights)
    named, centred = built("IMAGENET1K_V1").eval(), built("IMAGENET1K_V1", inputs="centred").eval()
    x = torch.rand(2, 3, 32, 32) * 2 - 1
    with torch.inference_mode():
        assert torch.equal(named.features(x), centred.features(Normalise()(x)))
        assert not torch.allclose(named.features(x), centred.features(x))
        assert torch.equal(named.until(x, "layer1"), centred.until(Normalise()(x), "layer1"))
    assert named.state_dict().keys() == weights.keys()


def test_training_starts_from_the_file_and_not_from_random_weights(tmp_path: Path) -> None:
    model = build_model(
        "vit-tiny", {"depth": 1}, InputSpec.image(8, 8, 3), unnamed(2), 7
    ).state_dict()
    save_file(
        {key: value.contiguous() for key, value in model.items()}, str(tmp_path / "v.safetensors")
    )
    spec = ModelSpec("vit-tiny", {"depth": 1, "weights": str(tmp_path / "v.safetensors")})
    trajectory = fit(
        ERM(), split(), {"tiny": DATA}, spec, TrainingSettings(steps=0, evaluation_batch=32), 0
    )  # type: ignore[arg-type]
    trained_weights = trajectory.weights("last")
    assert all(torch.equal(trained_weights[f"model.{key}"], value) for key, value in model.items())


STUDY: dict[str, Any] = {
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 2, "validation": 0.15},
        }
    },
    "shifts": {"SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2}},
    "sizes": {"equal": {"total": 100}},
    "models": {
        "random": {"model": "vit-tiny", "depth": 1},
        "given": {"model": "vit-tiny", "depth": 1, "weights": "start.safetensors"},
    },
    "methods": ["erm"],
    "training": {"steps": 3, "batch": 32, "validate_every": 3},
    "seeds": 1,
}


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_study_tunes_from_a_file_and_another_file_is_another_run(tmp_path: Path) -> None:
    """Weights of 7 classes for 10, beside the study. Where the file changes its run is done anew;
    the other's stays."""
    study, out, keys_found = tmp_path / "tune.yaml", tmp_path / "out", []
    study.write_text(json.dumps(STUDY), encoding="utf-8")
    for seed in (7, 8):
        start = build_model("vit-tiny", {"depth": 1}, SHAPE, unnamed(7), seed).state_dict()
        save_file(
            {key: value.contiguous() for key, value in start.items()},
            str(tmp_path / "start.safetensors"),
        )
        assert _status(["run", str(study), "--out", str(out), "--workers", "1"]) == 0
        with Store.open(out) as store:
            assert {run["status"] for run in store.runs("tune")} == {"finished"} and len(
                store.runs("tune")
            ) == 2
            assert store.counts()["finished"] == 2 + len(keys_found)
            rows = [
                row for row in store.results("tune", without=("groups",)) if row["set"] == "test"
            ]
        keys_found.append({row["model"]: (row["key"], row["metrics"]["nll"]) for row in rows})
    before, after = keys_found
    assert before["random"] == after["random"]
    assert (
        len({before["random"], before["given"], after["given"]})
        == 3
        == len({nll for _, nll in (*before.values(), after["given"])})
    )
