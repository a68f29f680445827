"""The checks of transforms, of images, of texts and of vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crosswind.core.errors import CrosswindError, InputError
from crosswind.core.knobs import knobs_of
from crosswind.core.seeds import hash64
from crosswind.testing.checks import Check, declaration_checks, require, require_values, run_checks
from crosswind.transforms.base import Transform

__all__ = ["check_transform", "transform_checks"]

ROWS = 7
SIZES = ((3, 31, 45), (1, 28, 28), (3, 48, 48))
"""Channels, height and width of the pictures that a transform is tried on."""
WIDTHS = (2, 3, 16)
"""Numbers in a row of the vectors that a transform is tried on."""
ORDERS = ([0], [6], [5, 2], [3, 6, 1, 0, 5, 2, 4])
"""Rows that are changed by themselves, in a small batch, and in another order."""
TEXTS = (
    "the film was a long and quiet story , and i liked every minute of it .",
    "nobody in this small town would have said a good word about the old house",
    "it works .",
    "we bought two of these lamps last year ; both broke within a week !",
    "an even , honest book with many fine pages and a weak end",
    "the service was slow , the food cold and the music far too loud for us",
    "she plays the part with great care , and the young cast follows her lead",
)


def transform_checks(
    cls: type[Transform], *, knobs: Mapping[str, Any] | None = None
) -> list[Check]:
    """The checks of a transform, each to be called, as by `pytest.mark.parametrize`.

    `knobs`: the settings that it cannot do without. A transform of images is tried on uint8
    pictures, grey and in colour, in three sizes; one of texts on seven lists of tokens; one of
    vectors on seven rows of two, three and sixteen numbers.
    """
    subject = _TransformUnderTest(cls, dict(knobs or {}))
    looks: dict[str, Callable[[], None]] = {
        "gives-inputs-of-its-kind": subject.gives_inputs,
        "changes-something": subject.changes_something,
        "a-row-is-changed-by-its-key-alone": subject.row_is_changed_by_key,
        "the-same-again-whatever-else-is-drawn": subject.repeats,
        "draws-differ-with-the-key-as-it-declares": subject.draws_differ,
        "leaves-its-inputs-as-they-were": subject.leaves_inputs,
        "strengths-are-settings-of-its-own": subject.strengths_are_settings,
        "a-wrong-setting-is-refused": subject.wrong_setting_is_refused,
    }
    return [
        *declaration_checks(cls, ("transform", "text-transform", "vector-transform"), Transform),
        *(Check(name, subject.name, look) for name, look in looks.items()),
    ]


def check_transform(
    cls: type[Transform],
    *,
    skip: Mapping[str, str] | None = None,
    knobs: Mapping[str, Any] | None = None,
) -> None:
    """Check that a transform holds the contract of `crosswind.transforms.base`; under a second.

    `skip`: check -> why it cannot hold. `knobs`: see `transform_checks`. Raises `CheckFailed` with
    a line for each check that does not hold.
    """
    run_checks(transform_checks(cls, knobs=knobs), skip)


def _keys(rows: NDArray[np.int64] | int) -> NDArray[np.uint64]:
    return hash64(np.arange(rows) if isinstance(rows, int) else rows, 11)


def _pictures(channels: int, height: int, width: int) -> Tensor:
    """uint8 [7, channels, height, width]: a slope, an edge and noise, other levels in each."""
    random = np.random.default_rng(5)
    down, across = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    levels = random.uniform(40, 200, (ROWS, channels, 1, 1))
    edge = np.where(down + across < random.uniform(0.6, 1.4, (ROWS, 1, 1, 1)), 45, -45)
    noise = random.normal(0, 8, (ROWS, channels, height, width))
    return torch.from_numpy((levels + 30 * across + edge + noise).clip(0, 255).astype(np.uint8))


def _vectors(width: int) -> Tensor:
    """float32 [7, width]: rows of lengths between 0.1 and 2."""
    random = np.random.default_rng(5)
    directions = random.normal(size=(ROWS, width))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    lengths = random.uniform(0.1, 2, (ROWS, 1))
    return torch.from_numpy((directions * lengths).astype(np.float32))


@dataclass(frozen=True)
class _TransformUnderTest:
    cls: type[Transform]
    knobs: dict[str, Any]

    @property
    def name(self) -> str:
        return getattr(self.cls, "__name__", str(self.cls))

    @property
    def is_of_texts(self) -> bool:
        return self.cls.takes == "text"

    @cached_property
    def texts(self) -> list[list[str]]:
        """Words and marks, or the whole text as one token."""
        return [[text] if self.cls.whole else text.split() for text in TEXTS]

    def batches(self) -> list[Any]:
        if self.is_of_texts:
            return [self.texts]
        if self.cls.takes == "features":
            return [_vectors(width) for width in WIDTHS]
        return [_pictures(*size) for size in SIZES]

    def transform(self, **changes: Any) -> Transform:
        require_values(self.cls, self.knobs)
        return self.cls(**{**self.knobs, **changes})

    def changed(self, inputs: Any, keys: NDArray[np.uint64] | None = None) -> Any:
        return self.transform()(inputs, _keys(len(inputs)) if keys is None else keys)

    # -- the checks --------------------------------------------------------------------------------

    def gives_inputs(self) -> None:
        for inputs in self.batches():
            changed = self.changed(inputs)
            if self.is_of_texts:
                fits = isinstance(changed, list) and len(changed) == len(inputs)
                require(fits, "it does not give a list of as many texts", "give one a row")
                require(
                    all(
                        isinstance(text, list) and text and all(isinstance(t, str) for t in text)
                        for text in changed
                    ),
                    "a text that it gives is no list of tokens, or an empty one",
                    "give at least one token a text, each a str",
                )
                continue
            require(
                isinstance(changed, Tensor)
                and changed.dtype == inputs.dtype
                and changed.shape == inputs.shape,
                f"it gives {_described(changed)} for {_described(inputs)}",
                f"let apply give {_type_of(inputs)} of the shape that it is handed",
            )

    def changes_something(self) -> None:
        require(
            any(not _equal(self.changed(inputs), inputs) for inputs in self.batches()),
            "it gives its inputs back at these settings",
            "let its defaults change something, or name settings for the checks: knobs={...}",
        )

    def row_is_changed_by_key(self) -> None:
        for inputs in self.batches():
            together = self.changed(inputs)
            for rows in ORDERS:
                alone = self.changed(_rows(inputs, rows), _keys(np.array(rows)))
                require(
                    _equal(alone, _rows(together, rows)),
                    "a row and key give something else in another batch or order",
                    "draw for each row from its own key, and compute nothing over the rows",
                )

    def repeats(self) -> None:
        """Global generators are neither read nor moved."""
        for inputs in self.batches():
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(1)
                before = torch.get_rng_state()
                first = self.changed(inputs)
                is_moved = not torch.equal(before, torch.get_rng_state())
                torch.manual_seed(2)
                second = self.changed(inputs)
            require(
                _equal(first, second),
                "the same input and keys give something else the second time",
                "draw from the keys (crosswind.transforms.draws.uniforms), not from a generator",
            )
            require(
                not is_moved,
                "it draws from torch's global generator",
                "draw from the keys (crosswind.transforms.draws.uniforms)",
            )

    def draws_differ(self) -> None:
        inputs = self.batches()[0]
        copies = _rows(inputs, [0] * 12)
        changed = self.changed(copies)
        is_same = all(_equal(_rows(changed, [0]), _rows(changed, [row])) for row in range(1, 12))
        require(
            not (self.cls.random and is_same),
            "twelve keys change one input in one way, and it declares random = True",
            "draw from the keys, or declare random = False",
        )
        require(
            self.cls.random or is_same,
            "two keys change one input in two ways, and it declares random = False",
            "draw nothing, or leave random as it is",
        )

    def leaves_inputs(self) -> None:
        for inputs in self.batches():
            before = _rows(inputs, list(range(len(inputs))))
            self.changed(inputs)
            require(
                _equal(before, inputs), "it writes into its inputs", "change a copy: inputs.clone()"
            )

    def strengths_are_settings(self) -> None:
        if self.cls.strengths is None:
            return
        name, values = self.cls.strengths
        names = [knob.name for knob in knobs_of(self.cls)]
        require(
            name in names,
            f"its strengths are of {name!r}, which is no knob of it",
            f"name one of {', '.join(names)}",
        )
        for value in values:
            try:
                self.transform(**{name: value})
            except InputError as error:
                require(False, f"its strength {value!r} is refused: {error}", "mend `strengths`")

    def wrong_setting_is_refused(self) -> None:
        """`Transform` checks knobs when it is made; a subclass that overrides `__post_init__` may
        lose that."""
        for knob in knobs_of(self.cls):
            if not knob.domain:
                continue
            try:
                self.transform(**{knob.name: "no such setting"})
            except CrosswindError:
                continue
            require(
                False,
                f"it takes {knob.name}='no such setting'",
                "call super().__post_init__() first in __post_init__",
            )


def _rows(inputs: Any, rows: list[int]) -> Any:
    """A new batch of these rows."""
    if isinstance(inputs, Tensor):
        return inputs[rows]
    return [list(inputs[row]) for row in rows]


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, Tensor):
        return torch.equal(left, right)
    return bool(left == right)


def _type_of(inputs: Tensor) -> str:
    """The type of the numbers that `apply` is handed, vectors in double precision."""
    return "uint8" if inputs.dtype == torch.uint8 else "float64"


def _described(changed: Any) -> str:
    if isinstance(changed, Tensor):
        return f"{str(changed.dtype).removeprefix('torch.')} {list(changed.shape)}"
    return type(changed).__name__
