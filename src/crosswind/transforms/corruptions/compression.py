"""Images through the JPEG file format and back."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from crosswind.transforms.layout import on_device

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["through_jpeg"]


def through_jpeg(x: Tensor, quality: int) -> Tensor:
    """Images uint8 [n, c, h, w] as they come out of JPEG files of this `quality` (1 to 95; Pillow, 4:2:0), one by one."""
    from PIL import Image

    pixels = x.permute(0, 2, 3, 1).cpu().numpy()
    out = np.empty_like(pixels)
    for i, picture in enumerate(pixels):
        file = io.BytesIO()
        Image.fromarray(picture if picture.shape[2] == 3 else picture[:, :, 0]).save(file, "JPEG", quality=quality)
        with Image.open(file) as read:
            out[i] = np.asarray(read).reshape(picture.shape)
    return on_device(out, x.device).permute(0, 3, 1, 2)
