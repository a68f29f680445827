"""What every registered transform of images must hold: sizes, types, layouts, bits, draws,
refusals."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tests.transforms.pictures import pictures

from crosswind.core.errors import InputError
from crosswind.core.registry import facts, listing, load
from crosswind.core.seeds import hash64
from crosswind.testing import Check, transform_checks
from crosswind.transforms.base import Transform

NAMES = [item.name for item in listing("transforms") if item.kind == "transform"]
# A sweep over an empty room proves nothing: raise this as the room grows.
AT_LEAST = 30
MUST_BE = """
randaugment autoaugment augmix trivialaugment imagenet rotate translate shear erase cutout flip-crop
gaussian-noise shot-noise impulse-noise speckle-noise gaussian-blur defocus-blur glass-blur motion-blur zoom-blur
snow frost fog spatter brightness contrast saturate elastic pixelate jpeg
"""
SHAPES = ((3, 31, 45), (1, 28, 28), (3, 64, 64), (1, 64, 64))
LARGE = ((3, 256, 256), (1, 256, 256))


@cache
def photographs(channels: int, height: int, width: int) -> torch.Tensor:
    """Seven pictures: five of photographs, one of one level, one of noise."""
    return pictures(channels, height, width, 32)[[0, 4, 9, 13, 20, 27, 30]]


def keys_of(rows: np.ndarray | int) -> np.ndarray:
    return hash64(np.arange(rows) if isinstance(rows, int) else rows, 11)


def made(name: str, **knobs: Any) -> Transform:
    return load("transforms", name)(**knobs)  # type: ignore[no-any-return]


def by_strength(name: str) -> list[Transform]:
    """The transform as it is by default, and at its weakest and strongest."""
    knob, values = load("transforms", name).strengths or ("", ())  # type: ignore[attr-defined]
    return [made(name), *(made(name, **{knob: value}) for value in (*values[:1], *values[-1:]))]


def test_all_are_found() -> None:
    assert len(NAMES) >= AT_LEAST
    assert not set(MUST_BE.split()) - set(NAMES)
    # Whatever is in the room and is no transform of images says so by its kind; nothing is left out
    # here without a word.
    assert {transform.kind for transform in listing("transforms")} == {"transform"}
    for name in NAMES:
        assert issubclass(load("transforms", name), Transform)


CHECKS = {name: transform_checks(load("transforms", name)) for name in NAMES}
TEXT_KNOBS: dict[str, dict[str, Any]] = {"excerpt": {"part": "any"}}
"""The start of a text is no draw."""
OF_TEXTS = {
    item.name: transform_checks(load("text-transforms", item.name), knobs=TEXT_KNOBS.get(item.name))
    for item in listing("text-transforms")
    if not any(knob.required for knob in item.knobs)  # those of models have tests beside a model
}
OF_VECTORS = {
    vector_transform.name: transform_checks(load("vector-transforms", vector_transform.name))
    for vector_transform in listing("vector-transforms")
}


def test_the_checks_find_the_transforms() -> None:
    assert set(OF_VECTORS) >= {"along-sphere", "jitter"}
    assert len(CHECKS) >= AT_LEAST and min(map(len, CHECKS.values())) >= 13
    assert {"drop-words", "eda", "excerpt", "random-replacement", "typos"} <= set(OF_TEXTS)


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{name}-{check}")
        for name, checks in {**CHECKS, **OF_TEXTS, **OF_VECTORS}.items()
        for check in checks
    ],
)
def test_what_transforms_of_others_must_hold_holds(check: Check) -> None:
    check()


@pytest.mark.parametrize("name", NAMES)
def test_a_row_has_the_same_bits_in_any_batch_place_and_layout(name: str) -> None:
    """Each picture alone, in batches of 2 and 7 in another order, by planes and channels last;
    twice the same, input unchanged."""
    for shape, transforms in zip(SHAPES[:2], (by_strength(name), [made(name)]), strict=True):
        x = photographs(*shape)
        for transform in transforms:
            x_before = x.clone()
            together = transform(x, keys_of(7))
            assert (
                together.dtype == torch.uint8
                and together.shape == x.shape
                and together.is_contiguous()
            )
            assert torch.equal(transform(x, keys_of(7)), together)
            for rows in ([0], [6], [5, 2], [3, 6, 1, 0, 5, 2, 4]):
                chunk = x[rows].contiguous(memory_format=torch.channels_last)
                transformed = transform(chunk, keys_of(np.array(rows)))
                assert torch.equal(transformed, together[rows]), (shape, transform, rows)
                assert transformed.is_contiguous(memory_format=torch.channels_last)
            assert torch.equal(x, x_before)


@pytest.mark.parametrize("name", NAMES)
def test_any_size_type_and_number(name: str) -> None:
    """Floats are rounded to 256 levels first, so they give what the levels give; an empty batch
    gives an empty one."""
    transform = made(name)
    for shape in SHAPES[2:]:
        x = photographs(*shape)[:2]
        transformed = transform(x, keys_of(2))
        assert transformed.shape == x.shape and transformed.dtype == torch.uint8
    grey = transformed
    assert torch.equal(transform(x[:1], keys_of(1)), grey[:1])
    for dtype in (torch.float32, torch.float64):
        as_floats = transform((x.to(dtype) / 255 - 0.001).clamp(min=0), keys_of(2))
        assert as_floats.dtype == dtype and torch.equal(
            as_floats.mul(255).round().to(torch.uint8), grey
        )
    for dtype in (torch.uint8, torch.float32):
        none = transform(x[:0].to(dtype), keys_of(0))
        assert none.shape == (0, 1, 64, 64) and none.dtype == dtype
    for bad, words in (
        (x[:, :1].expand(-1, 2, -1, -1), "1 or 3 channels"),
        (x[0], "1 or 3 channels"),
        (x.to(torch.int64), "1 or 3 channels"),
        (x.float(), r"in \[0, 1\]"),
        (torch.full((2, 1, 28, 28), torch.nan), r"in \[0, 1\]"),
    ):
        with pytest.raises(InputError, match=words):
            transform(bad, keys_of(len(bad)))
    with pytest.raises(InputError, match="one key for each of 2 images, not 3"):
        transform(x, keys_of(3))


@pytest.mark.parametrize("name", NAMES)
def test_draws_differ_within_a_batch_of_one_picture_unless_nothing_is_drawn(name: str) -> None:
    transform = by_strength(name)[-1]
    x = photographs(3, 31, 45)[:1].expand(12, -1, -1, -1)
    transformed = transform(x, keys_of(12))
    different = len({row.numpy().tobytes() for row in transformed})
    assert (different > 6) if transform.random else different == 1
    assert torch.equal(
        transform(x[:2], keys_of(np.array([4, 4])))[0], transformed[4]
    )  # the same key, the same draw
    assert not torch.equal(transformed, x)


@pytest.mark.parametrize("name", NAMES)
def test_values_out_of_range_are_refused_by_name(name: str) -> None:
    """Every knob with a domain: numbers on both sides of it, and words that are not in it."""
    strong = load("transforms", name).strengths  # type: ignore[attr-defined]
    checked = set()
    for knob in facts("transforms", name).knobs:
        if not knob.domain:
            continue
        numbers = re.fullmatch(r"[\[(]\s*([^,]+),\s*([^\])]+)[\])]", knob.domain)
        values: list[Any] = ["no such word"] if numbers is None else []
        if numbers is not None:
            is_whole = "int" in knob.annotation
            low, high = (float(end) for end in numbers.groups())
            values = [
                int(end) + step if is_whole else end + step
                for end, step in ((low, -1), (high, 1))
                if np.isfinite(end)
            ]
            values.append(float("nan"))
        for value in values:
            with pytest.raises(InputError) as refused:
                made(name, **{knob.name: value})
            assert str(refused.value).startswith(f"{name}.{knob.name}: "), refused.value
            if value == value and not isinstance(value, str):
                assert knob.domain in str(refused.value)
        checked.add(knob.name)
    assert strong is None or strong[0] in checked


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_large_pictures(name: str) -> None:
    for shape in LARGE:
        x = pictures(shape[0], 256, 256, 6)[:2]
        for transform in by_strength(name):
            transformed = transform(x, keys_of(2))
            assert transformed.shape == x.shape and transformed.dtype == torch.uint8
            last = x[1:].contiguous(memory_format=torch.channels_last)
            assert torch.equal(transform(last, keys_of(2)[1:])[0], transformed[1])
