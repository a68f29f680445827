"""Images made ready for a network of the library transformers, as a layer: it stands in training,
where images change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from crosswind.core.errors import InputError

__all__ = ["Preprocess"]


class Preprocess(nn.Module):
    """The preprocessing of CLIP and of BLIP: images (-1, 1) [n, 1 or 3, h, w] -> [n, 3, crop,
    crop], by channel (value - mean) / sd.

    `size`: of the shorter side in pixels, or of both. `crop`: of the centre that is taken, height
    and width.
    """

    mean: Tensor
    sd: Tensor

    def __init__(
        self,
        size: int | tuple[int, int],
        crop: tuple[int, int],
        mean: Sequence[float],
        sd: Sequence[float],
        mode: str,
    ) -> None:
        super().__init__()
        self.size = size
        self.crop = crop
        self.mode = mode
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("sd", torch.tensor(sd).view(1, 3, 1, 1), persistent=False)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Preprocess:
        """By the settings of a processor. Raises `InputError` for one that does something else."""
        modes = {2: "bilinear", 3: "bicubic"}
        size = config.get("size") or {}
        crop = config.get("crop_size") or {}
        whole_size = (
            (size["height"], size["width"]) if size.get("height") else size.get("shortest_edge")
        )
        if isinstance(whole_size, tuple) and not config.get("do_center_crop"):
            crop = size
        switches = (
            "do_resize",
            "do_rescale",
            "do_normalize",
            *(() if crop is size else ("do_center_crop",)),
        )
        off = [name for name in switches if not config.get(name, True)]
        if off or whole_size is None or not crop or int(config["resample"]) not in modes:
            unsupported = f"{off[0]} off" if off else "a size, crop or resampling of another kind"
            raise InputError(
                "model.path",
                f"its processor has {unsupported}; resize, centre crop, mean and sd are what is"
                " done here",
            )
        if min(whole_size if isinstance(whole_size, tuple) else (whole_size,)) < max(
            crop["height"], crop["width"]
        ):
            raise InputError("model.path", "its processor crops more than it resizes to")
        mean = config["image_mean"]
        sd = config["image_std"]
        return cls(
            whole_size, (crop["height"], crop["width"]), mean, sd, modes[int(config["resample"])]
        )

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        height, width = x.shape[2:]
        short = min(height, width)
        if isinstance(self.size, tuple):
            size = self.size
        else:
            size = (self.size * height // short, self.size * width // short)
        x = (x + 1) / 2
        for step in (
            (height, size[1]),
            size,
        ):  # one axis after the other, each to levels, as pictures are resized
            if x.shape[2:] != step:
                x = nn.functional.interpolate(
                    x, step, mode=self.mode, antialias=True, align_corners=False
                )
                x = (x.clamp(0, 1) * 255).round() / 255
        top = (size[0] - self.crop[0]) // 2
        left = (size[1] - self.crop[1]) // 2
        x = x[..., top : top + self.crop[0], left : left + self.crop[1]]
        return (x - self.mean.to(x)) / self.sd.to(x)
