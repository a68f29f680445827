from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.models.tiny_clip import clip_folder
from tests.models.tiny_texts import encoder_folder
from tests.training.world import run

import crosswind as cw
from crosswind.core.errors import InputError, NeedsError
from crosswind.core.types import InputSpec
from crosswind.execution.jobs import kept_answers, split_of
from crosswind.methods.base import Info
from crosswind.methods.lora import LoRA
from crosswind.models.build import build_model, unnamed
from crosswind.storage.predictions_file import read_predictions
from crosswind.studies.job_specs import FitSpec

IMAGE = InputSpec.image(8, 8, 3)


def model_of(name: str, input: InputSpec = IMAGE, **knobs: Any) -> Any:
    return build_model(name, knobs, input, unnamed(2), 0)


def adapted(name: str, input: InputSpec = IMAGE, method: LoRA | None = None, **knobs: Any) -> Any:
    def make(**_: Any) -> Any:
        return model_of(name, input, **knobs)

    model: Any = (method or LoRA()).modules(Info(input, 2, 60), make)["model"]
    return model.eval()


def test_an_adapted_layer_by_hand() -> None:
    """W x + b + (alpha / rank) B A x, whatever A and B are."""
    model = adapted("mlp", method=LoRA(rank=3, alpha=6.0))
    layer, *_ = [submodule for submodule in model.modules() if hasattr(submodule, "lora_A")]
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    assert a.shape[0] == b.shape[1] == 3 and not b.any()
    with torch.no_grad():
        b.normal_(generator=torch.Generator().manual_seed(0))
        x = torch.randn(5, a.shape[1], generator=torch.Generator().manual_seed(1))
        by_hand = layer.base_layer(x) + 2.0 * x @ a.T @ b.T
        assert torch.allclose(layer(x), by_hand, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "input", "knobs"),
    [
        ("mlp", IMAGE, {}),
        ("vit-tiny", IMAGE, {"depth": 1}),
        ("clip", IMAGE, {"path": clip_folder, "tuned": True}),
        ("transformer", InputSpec.tokens(6, 19), {"path": encoder_folder, "tokens": 16}),
    ],
)
def test_it_begins_as_the_model_does_and_trains_adapters_and_head_alone(
    name: str, input: InputSpec, knobs: Any
) -> None:
    knob_values = {key: value() if callable(value) else value for key, value in knobs.items()}
    plain, model = model_of(name, input, **knob_values).eval(), adapted(name, input, **knob_values)
    x = torch.randint(1, 19, (3, 6)) if name == "transformer" else torch.rand(3, 3, 8, 8) * 2 - 1
    assert torch.allclose(plain(x), model(x), atol=1e-5)
    head = {id(parameter) for parameter in model.head.parameters()}
    trained = {
        key: p for key, p in model.named_parameters() if p.requires_grad and id(p) not in head
    }
    assert trained and all(".lora_" in key for key in trained)
    assert all(p.requires_grad for p in model.head.parameters())
    model(x).square().sum().backward()
    assert all(p.grad is not None for p in trained.values())
    assert sum(p.numel() for p in trained.values()) < sum(p.numel() for p in plain.parameters())


def test_what_is_frozen_stays_and_adapters_learn() -> None:
    weights, plain = (
        run(LoRA(rank=2), steps=6).weights("last"),
        run(LoRA(rank=2), steps=0).weights("last"),
    )
    changed = {key for key, value in weights.items() if not torch.equal(value, plain[key])}
    assert any(".lora_B." in key for key in changed) and not any(
        "base_layer" in key for key in changed
    )
    assert (
        sum(".lora_A." in key for key in weights) == sum(".lora_B." in key for key in weights) >= 1
    )


def test_the_head_stays_where_it_is_told_to() -> None:
    model = adapted("mlp", method=LoRA(head=False))
    assert not any(p.requires_grad for p in model.head.parameters())


def test_targets_are_chosen_by_the_names_of_layers_and_of_what_holds_them() -> None:
    knobs: dict[str, Any] = {"path": clip_folder(), "tuned": True}
    model = adapted("clip", method=LoRA(targets=["q_proj", "v_proj"]), **knobs)
    names = {
        key.partition(".lora_")[0].rpartition(".")[2]
        for key, _ in model.named_parameters()
        if ".lora_" in key
    }
    assert names == {"q_proj", "v_proj"}
    inside = adapted("clip", method=LoRA(targets=["mlp"]), **knobs)
    assert {key.split(".")[-4] for key, _ in inside.named_parameters() if ".lora_" in key} == {
        "fc1",
        "fc2",
    }
    with pytest.raises(
        InputError,
        match=(
            r"method.targets: the model has no linear layer, and no part with one, called"
            r" 'w_proj'.*q_proj.*vision_model"
        ),
    ):
        adapted("clip", method=LoRA(targets=["q_proj", "w_proj"]), **knobs)


def test_a_model_without_linear_layers_is_refused() -> None:
    with pytest.raises(NeedsError, match="needs a model with linear layers beside its head"):
        adapted("small-cnn")


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:`is_gradient_checkpointing`:FutureWarning"
)  # of peft and transformers between them
def test_peft_reads_what_a_run_keeps(tmp_path: Path) -> None:
    """Into CLIP of the library transformers itself: its image features are then those of the run's
    network."""
    from peft import PeftModel
    from transformers import CLIPModel

    study: dict[str, Any] = {
        "name": "adapted",
        "data": {
            "digits": {
                "source": "digits",
                "label": "digit",
                "attributes": ["ink"],
                "roles": {"test": 4},
            }
        },
        "shifts": {"none": []},
        "models": {"clip": {"path": clip_folder(), "tuned": True}},
        "methods": {"erm": {}, "lora": {"rank": 2}},
        "training": {"steps": 2, "validate_every": 2, "batch": 8, "lr": 0.01},
        "sizes": {"small": {"total": 40}},
        "keep": "all",
        "seeds": 1,
    }
    cw.run_study(study, tmp_path / "out", workers=1)
    (folder,) = (tmp_path / "out").glob("**/exports-last")
    assert json.loads((folder / "adapter_config.json").read_text())["r"] == 2
    about = json.loads((folder.parent / "job.json").read_text())
    spec = FitSpec.of(about["spec"])
    split, datasets = split_of(spec.rows)
    again: Any
    again, _ = kept_answers(spec, [folder.parent])(split.validation, datasets)
    (name,) = split.validation
    kept_logits = read_predictions(folder.parent / "predictions.npz")["last"][name].logits
    assert kept_logits is not None and np.array_equal(again["last"][name].logits, kept_logits)
    kept_tensors = load_file(str(folder.parent / "weights-last.safetensors"))
    assert (
        not any("base_layer" in key for key in kept_tensors)
        and sum(value.numel() for value in kept_tensors.values()) < 6_000
    )
    network = adapted("clip", method=LoRA(rank=2), path=clip_folder(), tuned=True)
    network.load_state_dict(
        {
            key.removeprefix("model."): value
            for key, value in kept_tensors.items()
            if "classes" not in key
        },
        strict=False,
    )
    theirs: Any = PeftModel.from_pretrained(
        CLIPModel.from_pretrained(clip_folder()), str(folder)
    ).eval()
    x = torch.rand(3, 3, 32, 32) * 2 - 1
    with torch.inference_mode():
        their_features = theirs.get_image_features(pixel_values=network.preprocess(x)).pooler_output
        plain = (
            model_of("clip", InputSpec.image(32, 32, 3), path=clip_folder(), tuned=True)
            .eval()
            .features(x)
        )
        ours = network.features(x)
    assert torch.allclose(torch.nn.functional.normalize(their_features, dim=1), ours, atol=1e-5)
    assert (ours - plain).abs().max() > 1e-4
