"""CLIP out of the library transformers: asked with prompts, or fine-tuned from there. Needs the
extra `transformers`."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crosswind.core.errors import DataError, InputError, one_line, shown
from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec, digest
from crosswind.data.dataset import AttributedDataset
from crosswind.models.build import Backbone, Encoder, Model, normalised
from crosswind.models.folders import LABEL, check_clip, contents_hash, is_hub_name
from crosswind.models.given.outside import Answers, Outside, usable
from crosswind.models.language.feature_cache import FeatureCache, feature_cache
from crosswind.models.language.preprocess import Preprocess
from crosswind.models.networks.transformer import hub_folder, quiet

if TYPE_CHECKING:
    from crosswind.shifts.split import RowSet

__all__ = ["Clip"]

TEXTS_AT_ONCE = 256
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@register("clip", kind="model")
@dataclass(frozen=True)
class Clip(Outside, Backbone):
    """CLIP: an image is of the class whose prompt is nearest to it; nothing is trained unless
    `tuned` says so.

    Logits are exp(logit_scale) times the cosine of the image's features and the class's. Those of a
    class are the mean of the normalised features of all `prompts`, normalised again. Features of
    images are kept on disk, see `models.feature_cache`, so that entries which differ in prompts
    alone, all shifts, and a `linear-probe` on it share them. Images go through what the folder's
    processor says: shorter side resized, centre crop, mean and sd. With `tuned` methods train the
    image encoder and a linear head that begins as the prompts: stages patches, block1, block2, ...,
    each [n, 1 + patches, width]; features of length 1. `path` is a folder with safetensors, or a
    model of the hub at a pinned `revision`; code that lies beside them is never run. Radford et al.
    2021, "Learning Transferable Visual Models From Natural Language Supervision", sections 2.4 and
    3.1.
    """

    path: str = knob(doc="a folder, or owner/name on the hub")
    path_sha256: str | None = knob(None, doc="what the folder's files must hash to")
    revision: str | None = knob(None, doc="the commit of a model of the hub")
    tuned: bool = knob(
        False, doc="methods train it, beginning with the classifier that the prompts are"
    )
    prompts: list[str] = knob(
        ["a photo of a {label}."],
        source="Radford et al. 2021",
        doc="texts with {label} where a class is named; several: their mean",
    )
    names: dict[str, str] | None = knob(
        None,
        doc=(
            "how classes are spoken, by their names in the data; what is left out: its name, with"
            " spaces for underscores"
        ),
    )
    batch: int = knob(32, domain="[1, inf)", doc="images that pass the frozen network at once")
    precision: str = knob(
        "fp32", domain="{fp32, bf16, fp16}", doc="arithmetic of the frozen network"
    )
    device: str = knob(
        "cpu",
        domain="{cpu, cuda, mps, xpu}",
        doc="device of the frozen network; a tuned one is trained on the study's",
    )

    built = Form(norm="layer", maps=False, trained="tuned", folders={"path": "clip"})
    extra = "transformers"
    version = 1

    def answer(
        self, rows: RowSet, dataset: AttributedDataset, class_names: Sequence[str]
    ) -> Answers:
        """See `Outside.answer`."""
        spec = dataset.check_inputs()
        if spec.kind != "image" or spec.shape[2] not in (1, 3):
            raise DataError(f"clip takes images of 1 or 3 channels, and these are {spec}")
        net = self._network()
        images = self._cache(net).of_rows(dataset, rows.rows, net.image_features)
        prompts = tuple(self.prompts)
        words = self._spoken(class_names)
        texts = net.text_features(prompts, words)
        # In float64, where the order of a sum does not show: a row's logits do not depend on the
        # rows beside it.
        similarities = net.scale * images.astype(np.float64) @ texts.T.astype(np.float64)
        logits = similarities.astype(np.float32)
        return logits.argmax(1).astype(np.int64), logits

    def fits(self, input: InputSpec, class_names: Sequence[str]) -> None:
        """See `Outside.fits`: the network is loaded, and reads its prompts."""
        usable(self.device)
        prompts = tuple(self.prompts)
        words = self._spoken(class_names)
        self._network().text_features(prompts, words)

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`; nothing is drawn."""
        net = _network(*self._place(), "fp32", "cpu", self.batch)
        head = nn.Linear(net.width, len(class_names))
        prompts = tuple(self.prompts)
        words = self._spoken(class_names)
        texts = net.text_features(prompts, words)
        with torch.no_grad():
            head.weight.copy_(net.scale * torch.from_numpy(texts))
            head.bias.zero_()
        vision = deepcopy(net.model.vision_model)
        projection = deepcopy(net.model.visual_projection)
        return _ClipImages(vision, projection, net.preprocess, head, net.width)

    def frozen_features(self, input: InputSpec, device: str) -> Encoder | None:
        """See `Backbone.frozen_features`: those of the answers, from the same place on disk."""
        net = self._network()
        cache = self._cache(net)
        return Encoder(
            InputSpec.features(net.width), lambda rows: cache.of_images(rows, net.image_features)
        )

    def _cache(self, net: _Network) -> FeatureCache:
        key = digest(["clip", self.version, net.sha256, self.precision, self.device, self.batch])
        return feature_cache(key[:32])

    def _spoken(self, class_names: Sequence[str]) -> tuple[str, ...]:
        names = self.names or {}
        if names and not set(names) & set(class_names):
            raise InputError(
                "model.names",
                f"{shown(next(iter(names)))} and the others are no classes",
                list(class_names),
            )
        return tuple(names.get(name, name.replace("_", " ")) for name in class_names)

    def _network(self) -> _Network:
        return _network(*self._place(), self.precision, self.device, self.batch)

    def _place(self) -> tuple[str, str | None]:
        if is_hub_name(self.path):
            folder = hub_folder(self.path, self.revision)
        else:
            folder = Path(self.path)
        check_clip({**vars(self), "path": str(folder)}, "model")
        return str(folder), self.path_sha256


class _Network:
    """A folder's network, its tokenizer and its processor, made ready: `width` of its features, and
    `scale` of cosines."""

    def __init__(self, folder: Path, sha256: str, precision: str, device: str, batch: int) -> None:
        from transformers import AutoTokenizer, CLIPImageProcessor, CLIPModel

        self.sha256 = sha256
        self.batch = batch
        self.dtype = _DTYPES[precision]
        loading_options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        try:
            with quiet():
                network_options = {
                    **loading_options,
                    "use_safetensors": True,
                    "dtype": torch.float32,
                    "output_loading_info": True,
                }
                loaded: Any = CLIPModel.from_pretrained(folder, **network_options)
                self.tokenizer = AutoTokenizer.from_pretrained(folder, **loading_options)
                self.preprocess = Preprocess.of(
                    CLIPImageProcessor.from_pretrained(folder, local_files_only=True).to_dict()
                )
        except InputError:
            raise
        except Exception as error:  # whatever a damaged file makes the library raise
            problem = f"the model in {str(folder)!r} cannot be read ({one_line(str(error), 200)})"
            raise InputError("model.path", problem) from None
        model, report = loaded
        missing = sorted(
            [
                *report["missing_keys"],
                *(str(mismatched[0]) for mismatched in report["mismatched_keys"]),
            ]
        )
        if missing:
            raise InputError(
                "model.path",
                f"the weights in {str(folder)!r} do not fit its config.json: they lack"
                f" {missing[0]!r}",
            )
        if self.preprocess.crop != (model.config.vision_config.image_size,) * 2:
            raise InputError(
                "model.path",
                f"the processor in {str(folder)!r} gives {self.preprocess.crop}, not what the model"
                " reads",
            )
        self.scale = float(model.logit_scale.detach().exp())
        self.width = int(model.config.projection_dim)
        try:
            self.model = model.eval().requires_grad_(False).to(device, self.dtype)
        except (RuntimeError, AssertionError) as error:
            raise InputError(
                "model.device", f"{device!r} cannot be used here ({one_line(str(error), 200)})"
            ) from None
        self.preprocess.to(device)
        self.device = torch.device(device)
        self._texts: dict[tuple[tuple[str, ...], tuple[str, ...]], NDArray[np.float32]] = {}

    def image_features(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Features of length 1, [n, width], of images [n, h, w, c].

        Each batch is filled up, so that an image's do not depend on the others.
        """
        out = np.empty((len(images), self.width), dtype=np.float32)
        with torch.inference_mode(), torch.autocast(self.device.type, enabled=False):
            for start in range(0, len(images), self.batch):
                chunk = images[start : start + self.batch]
                padded_rows = np.resize(np.arange(len(chunk)), self.batch)
                x = torch.from_numpy(chunk[padded_rows]).permute(0, 3, 1, 2).to(self.device)
                pixels = self.preprocess(normalised(x, torch.float32, channels_last=False)).to(
                    self.dtype
                )
                projected = self.model.visual_projection(
                    self.model.vision_model(pixel_values=pixels).pooler_output
                )
                normal = nn.functional.normalize(projected.float(), dim=1)
                out[start : start + len(chunk)] = normal[: len(chunk)].cpu().numpy()
        return out

    def text_features(
        self, prompts: tuple[str, ...], words: tuple[str, ...]
    ) -> NDArray[np.float32]:
        """Features of length 1 of classes, [k, width]: computed once for the same prompts and
        words."""
        key = (prompts, words)
        if key not in self._texts:
            texts = [prompt.replace(LABEL, word) for word in words for prompt in prompts]
            chunks = []
            for start in range(0, len(texts), TEXTS_AT_ONCE):
                chunks.append(self._said(texts[start : start + TEXTS_AT_ONCE]))
            means = torch.cat(chunks).view(len(words), len(prompts), -1).mean(1)
            self._texts[key] = nn.functional.normalize(means, dim=1).numpy()
        return self._texts[key]

    def _said(self, texts: list[str]) -> Tensor:
        most_tokens = int(self.model.config.text_config.max_position_embeddings)
        tokens = self.tokenizer(texts, padding=True, return_tensors="pt")
        lengths = tokens["attention_mask"].sum(1)
        if int(lengths.max()) > most_tokens:
            longest = int(lengths.argmax())
            problem = (
                f"{shown(texts[longest])} is {int(lengths[longest])} tokens, and the model reads"
                f" {most_tokens}"
            )
            raise InputError("model.prompts", problem)
        text_inputs = {}
        for name in ("input_ids", "attention_mask"):
            text_inputs[name] = tokens[name].to(self.device)
        with torch.inference_mode(), torch.autocast(self.device.type, enabled=False):
            projected = self.model.text_projection(
                self.model.text_model(**text_inputs).pooler_output
            )
        return nn.functional.normalize(projected.float(), dim=1).cpu()


def _network(
    folder: str, expected: str | None, precision: str, device: str, batch: int
) -> _Network:
    stamp = sum(file.stat().st_mtime_ns for file in Path(folder).iterdir())
    sha256 = _hashed(folder, stamp)
    if expected not in (None, sha256):
        problem = (
            f"the files in {folder!r} have changed: they no longer hash to {str(expected)[:12]}..."
        )
        raise InputError("model.path", problem)
    return _made(folder, sha256, precision, device, batch)


@lru_cache(maxsize=8)
def _hashed(folder: str, stamp: int) -> str:
    return contents_hash(Path(folder), "clip")


@lru_cache(maxsize=2)
def _made(folder: str, sha256: str, precision: str, device: str, batch: int) -> _Network:
    return _Network(Path(folder), sha256, precision, device, batch)


class _ClipImages(Model):
    """CLIP's image encoder in stages under its own names, and a linear head on features of length
    1."""

    def __init__(
        self,
        vision: nn.Module,
        projection: nn.Module,
        preprocess: nn.Module,
        head: nn.Linear,
        width: int,
    ) -> None:
        vision.requires_grad_(True)
        projection.requires_grad_(True)
        layers = [
            f"vision_model.encoder.layers.{name}"
            for name, _ in vision.encoder.layers.named_children()  # type: ignore[union-attr]
        ]
        stages = {
            "patches": ("preprocess", "patches"),
            **{f"block{number}": (name,) for number, name in enumerate(layers, 1)},
        }
        children = {
            "preprocess": deepcopy(preprocess),
            "vision_model": vision,
            "visual_projection": projection,
            "classes": head,
        }
        super().__init__(children, stages=stages, pool=("pooled",), head="classes", width=width)

    def _run(self, child_names: tuple[str, ...], x: Tensor) -> Tensor:
        vision: Any = self.vision_model
        for child_name in child_names:
            if child_name == "patches":
                x = vision.pre_layrnorm(vision.embeddings(x))
            elif child_name == "pooled":
                projected = self.visual_projection(vision.post_layernorm(x[:, 0]))  # type: ignore[operator]
                x = nn.functional.normalize(projected, dim=1)
            elif child_name == "preprocess":
                x = self.preprocess(x)  # type: ignore[operator]
            else:
                x = self.get_submodule(child_name)(x, attention_mask=None)
        return x
