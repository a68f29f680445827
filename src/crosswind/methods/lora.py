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
            "base_model."
            + key.replace(f".{ADAPTER}.", ".").replace(
                f"model.{WHOLE}.", "model.", 1
            ): value.contiguous()
            for key, value in weights.items()
            if ".lora_" in key
        }
        layers = sorted(
            {key.removeprefix("base_model.model.").partition(".lora_")[0] for key in tensors}
        )
        peft_config: Any = self._config(layers)
        config = {
            key: sorted(value) if isinstance(value, set) else value
            for key, value in peft_config.to_dict().items()
        }
        config_text = json.dumps(config, indent=1, default=str).encode()
        return {
            "adapter_model.safetensors": save(tensors, {"format": "pt"}),
            "adapter_config.json": config_text,
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
        """The names of the layers that are adapted."""
        from torch import nn
        from transformers import PreTrainedModel
        from transformers.pytorch_utils import Conv1D

        modules: dict[str, Any] = dict(model.named_modules())
        attention = [
            f"{name}."
            for name, submodule in modules.items()
            if isinstance(submodule, nn.MultiheadAttention)
        ]
        # What a language model tells tokens by is a head too, and often its embeddings a second
        # time.
        pretrained: list[Any] = [
            submodule for submodule in modules.values() if isinstance(submodule, PreTrainedModel)
        ]
        heads = {
            id(model.head),
            *(id(submodule.get_output_embeddings()) for submodule in pretrained),
        }
        layer_names = [
            name
            for name, submodule in modules.items()
            if isinstance(submodule, nn.Linear | Conv1D)
            and id(submodule) not in heads
            and not name.startswith(tuple(attention))
        ]
        if not layer_names:
            raise NeedsError(
                "method 'lora' needs a model with linear layers beside its head, and this one has"
                " none that it can adapt"
            )
        if self.targets is None:
            return layer_names
        ends = [str(end) for end in self.targets]
        missing = [
            end for end in ends if not any(f".{end}." in f".{name}." for name in layer_names)
        ]
        if missing or not ends:
            name_parts = sorted(
                {
                    submodule
                    for name in layer_names
                    for submodule in name.split(".")
                    if not submodule.isdecimal()
                }
            )
            raise InputError(
                "method.targets",
                "the model has no linear layer, and no part with one, called"
                f" {shown(missing[0] if missing else ends)}",
                name_parts,
            )
        return [name for name in layer_names if any(f".{end}." in f".{name}." for end in ends)]
