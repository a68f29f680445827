"""What the models that are made from a folder are built with in sweeps over all models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.models.tiny_clip import clip_folder
from tests.models.tiny_texts import encoder_folder
from tests.models.tiny_vision import llava_folder

_FOLDERS: dict[str, Callable[[], str]] = {
    "clip": clip_folder,
    "transformer": encoder_folder,
    "vision-language": llava_folder,
}
_KNOBS: dict[str, dict[str, Any]] = {
    "clip": {"tuned": True},
    "vision-language": {"tuned": True, "by": "score"},
}


def given(name: str, tokens: int = 16) -> dict[str, Any]:
    """The settings that model `name` cannot do without; `tokens`: the most that an encoder of texts
    reads."""
    if name not in _FOLDERS:
        return {}
    return {"path": _FOLDERS[name](), **_KNOBS.get(name, {"tokens": tokens})}
