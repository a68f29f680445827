"""Low-rank adaptation of linear layers, by the library peft."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from crosswind.core.errors import InputError, NeedsError, shown
from crosswind.core.knobs import Limit, Needs, choose, knob
from crosswind.core.registry import register
from crosswind.methods.base import Info, MakeModel, Method, Modules

if TYPE_CHECKING:
    from peft import LoraConfig
    from torch import Tensor

    from crosswind.models.build import Model

__all__ = ["LoRA"]

ADAPTER = "default"
PEFT_ROOT = "base_model.model."  # what peft's names of weights begin with


@final
@register("lora", kind="method")
@dataclass(frozen=True)
class LoRA(Method):
    """LoRA: ERM in which each linear layer learns a change of low rank, and all other weights but
    the head stay as they were.

    Objective: as ERM, with W + (alpha / rank) B A in the place of each adapted weight W [out, in];
        A [rank, in] is drawn, B [out, rank] begins at 0 (their section 4.1, equation 3), so that
        training begins at the model's own function.
    Assumes: good initial weights, which a change of low rank is enough for. A model without linear
        layers beside its head is refused. Optimiser state, checkpoints and kept weights have what
        is trained alone.
    Knobs: rank 8, alpha 16. Jeon et al. 2025 name the ranks alone; targets null takes every linear
        layer but the head and the one that tells tokens, as Dettmers et al. 2023 advise. Search the
        learning rate: adapters want a larger one than full fine-tuning does.
    Limits: none.
    Deviations: torch's MultiheadAttention, as in torchvision's vision transformers, reads the
        weights of its layers itself, so those are left out. The head is trained in full unless head
        is false.
    Reference:
        @inproceedings{hu2022lora, title={LoRA: Low-Rank Adaptation of Large Language Models},
        author={Hu, Edward J. and Shen, Yelong and Wallis, Phillip and Allen-Zhu, Zeyuan and Li,
        Yuanzhi and Wang, Shean and Wang, Lu and Chen, Weizhu}, booktitle={ICLR}, year={2022}}
    Checked against: W + (alpha / rank) B A by hand; peft, which reads what a run keeps.
    """

    rank: int = knob(
        8,
        domain="[1, inf)",
        search=choose(4, 8, 16, 64),
        grid={"jeon2025": [8, 64, 128]},
        source="Jeon et al. 2025, table 9",
        doc="rank of the change of each layer",
    )
    alpha: float = knob(
        16.0,
        domain="(0, inf)",
        source="twice the rank, as is common; ours",
        doc="the change is scaled by alpha / rank",
    )
    dropout: float = knob(
        0.0,
        domain="[0, 1)",
        source="ours",
        doc="share of a layer's inputs that its change does not see in training",
    )
    targets: list[str] | None = knob(
        None,
        source="Dettmers et al. 2023",
        doc=(
            "layers by name, as [q_proj], or by the part around them, as [vision_tower]; null: all"
            " linear ones"
        ),
    )
    head: bool = knob(
        True, source="ours: the classes are new", doc="whether the head is trained, in full"
    )

    needs = Needs(linear=True)
    limit = Limit.none("no values of its settings make it train all weights, and none of none")
    extra = "transformers"
    version = 1

    def __hash__(self) -> int:
        return hash((self.rank, self.alpha, self.dropout, tuple(self.targets or ()), self.head))

    def modules(self, info: Info, make_model: MakeModel) -> Modules:
        """The classifier with its adapters. Raises `NeedsError` where there is no layer to adapt.

        An unknown target is an `InputError`.
        """
        from peft import inject_adapter_in_model

        model = make_model()
        inject_adapter_in_model(self._config(self._layers(model)), model, adapter_name=ADAPTER)
        for parameter in model.head.parameters():
            parameter.requires_grad_(self.head)
        return {"model": model}

    def exports(self, weights: Mapping[str, Tensor]) -> dict[str, bytes]:
        """The adapters as peft reads them, for the same network: of transformers, or built here."""
        from safetensors.torch import save

        from crosswind.models.build import WHOLE

        tensors = {
            _name_in_peft(key, WHOLE): tensor.contiguous()
            for key, tensor in weights.items()
            if ".lora_" in key
        }
        layers = {key.removeprefix(PEFT_ROOT).partition(".lora_")[0] for key in tensors}
        peft_config: Any = self._config(sorted(layers))
        config = {
            key: sorted(value) if isinstance(value, set) else value
            for key, value in peft_config.to_dict().items()
        }
        config_text = json.dumps(config, indent=1, default=str)
        return {
            "adapter_model.safetensors": save(tensors, {"format": "pt"}),
            "adapter_config.json": config_text.encode(),
        }

    def _config(self, layers: list[str]) -> LoraConfig:
        from peft import LoraConfig

        return LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,  # type: ignore[arg-type]
            lora_dropout=self.dropout,
            target_modules=layers,
        )

    def _layers(self, model: Model) -> list[str]:
        """The names of the layers that are adapted. Raises `NeedsError` and `InputError`."""
        adaptable = _adaptable_layers(model)
        if not adaptable:
            raise NeedsError(
                "method 'lora' needs a model with linear layers beside its head, and this one has"
                " none that it can adapt"
            )
        if self.targets is None:
            return adaptable
        targets = [str(target) for target in self.targets]
        unknown = [
            target for target in targets if not any(_lies_in(name, target) for name in adaptable)
        ]
        if unknown or not targets:
            levels = {level for name in adaptable for level in name.split(".")}
            raise InputError(
                "method.targets",
                "the model has no linear layer, and no part with one, called"
                f" {shown(unknown[0] if unknown else targets)}",
                sorted(level for level in levels if not level.isdecimal()),
            )
        return [name for name in adaptable if any(_lies_in(name, target) for target in targets)]


def _adaptable_layers(model: Model) -> list[str]:
    """The names of a model's linear layers but its head, the layers by which a language model tells
    tokens, and those of torch's attention."""
    from torch import nn
    from transformers import PreTrainedModel
    from transformers.pytorch_utils import Conv1D

    modules: dict[str, Any] = dict(model.named_modules())
    inside_attention = tuple(
        f"{name}." for name, module in modules.items() if isinstance(module, nn.MultiheadAttention)
    )
    heads = {id(model.head)}
    # What a language model tells tokens by is a head too, and often its embeddings a second time.
    language_models: list[Any] = [
        module for module in modules.values() if isinstance(module, PreTrainedModel)
    ]
    heads |= {id(language_model.get_output_embeddings()) for language_model in language_models}
    return [
        name
        for name, module in modules.items()
        if isinstance(module, nn.Linear | Conv1D)
        and id(module) not in heads
        and not name.startswith(inside_attention)
    ]


def _lies_in(layer: str, target: str) -> bool:
    """Whether a layer is called `target` or lies in a part that is, names being joined by dots."""
    return f".{target}." in f".{layer}."


def _name_in_peft(key: str, root: str) -> str:
    """The name that peft gives to a weight of an adapter: without the adapter's own name, and
    without the module `root` that a network of another library is held in."""
    without_adapter = key.replace(f".{ADAPTER}.", ".")
    return "base_model." + without_adapter.replace(f"model.{root}.", "model.", 1)
