"""The protocol of a transform: frozen settings that change a batch of inputs, each row by its own
key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final, overload

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, shown
from crosswind.core.knobs import knobs_of, resolve
from crosswind.core.types import KINDS_OF_INPUTS

if TYPE_CHECKING:
    from torch import Tensor


_ROOM_WORDS = {"text": "text ", "features": "vector "}


@dataclass(frozen=True)
class Transform(ABC):
    """A change of images, texts or vectors. Its fields are knobs, checked when it is made
    (`InputError`).

    A call is a pure function: the same input, knobs and key give the same output, alone or in any
    batch.
    """

    takes: ClassVar[str] = "image"
    """The kind of a row of the input: image, text, or features, a vector of numbers."""

    strengths: ClassVar[tuple[str, tuple[Any, ...]] | None] = None
    """The knob that sets the strength, and values of it from weak to strong, as a contact sheet
    shows them."""

    whole: ClassVar[bool] = False
    """Of texts: whether one token is a whole text with its spaces, which the transform divides
    itself."""

    random: ClassVar[bool] = True
    """Whether the result depends on the key."""

    @property
    def identity(self) -> dict[str, Any]:
        """The values that decide the result beside input and key: the knobs, files that they name
        by what is in them."""
        return {declared.name: getattr(self, declared.name) for declared in knobs_of(type(self))}

    def check(self) -> None:  # noqa: B027 - most need nothing
        """Look whether what the transform needs is there, before any work. Raises `InputError`."""

    def check_shape(self, shape: tuple[int, ...]) -> None:  # noqa: B027 - most fit all
        """Refuse rows of a shape that the settings do not fit; of features `shape` is (width,).
        Raises `InputError`."""

    def __post_init__(self) -> None:
        knobs = knobs_of(type(self))
        values: dict[str, Any] = {declared.name: getattr(self, declared.name) for declared in knobs}
        for key, value in resolve(knobs, values, self.title, self._whose).items():
            object.__setattr__(self, key, value)

    @property
    def title(self) -> str:
        """The registered name."""
        return getattr(type(self), "registered_name", type(self).__name__)

    @property
    def _whose(self) -> str:
        return f"{_ROOM_WORDS.get(self.takes, '')}transform {self.title!r}"

    @overload
    def __call__(self, inputs: Tensor, keys: NDArray[np.uint64]) -> Tensor: ...

    @overload
    def __call__(
        self, inputs: Sequence[Sequence[str]], keys: NDArray[np.uint64]
    ) -> list[list[str]]: ...

    @final
    def __call__(self, inputs: Any, keys: NDArray[np.uint64]) -> Any:
        """The changed inputs, new; those given stay as they are. Raises `InputError`.

        `keys`: uint64 [n], the randomness of each row. `inputs`, by what the transform takes:
        image: a tensor [n, c, h, w], c 1 (grey) or 3 (red, green, blue), any h and w, also n = 0;
        uint8, or floats in [0, 1],
            which are rounded to 256 levels first. The result has the shape, dtype, device and
            memory layout of the input.
        text: n sequences of tokens, also empty ones. The result is a list of n lists of tokens;
        only an empty text gives an
            empty one. Tokens are words and punctuation marks, split as the model wants them.
        features: a tensor of floats [n, width], finite or missing (NaN), also n = 0. The result has
            its shape, dtype and device.
        """
        check_inputs = {"image": self._checked_images, "features": self._checked_vectors}
        checked: Any = check_inputs.get(self.takes, self._checked_texts)(inputs)
        if len(keys) != len(inputs):
            problem = f"needs one key for each of {len(inputs)} {KINDS_OF_INPUTS[self.takes]}, not {len(keys)}"
            raise InputError(self._whose, problem)
        if self.takes == "text":
            return self.apply(checked, keys)
        if inputs.numel() == 0:
            return inputs.clone()
        if self.takes == "features":
            import torch

            return torch.from_numpy(self.apply(checked, keys)).to(inputs)
        from crosswind.transforms.layout import laid_out_as

        changed: Any = self.apply(checked, keys)
        if changed.shape != checked.shape or changed.dtype != checked.dtype:
            raise InputError(
                self._whose,
                f"makes {str(changed.dtype).removeprefix('torch.')} {list(changed.shape)} of uint8"
                f" {list(checked.shape)}; its apply must give uint8 of the same shape",
            )
        if checked is inputs:
            as_inputs = changed
        else:
            as_inputs = changed.to(inputs.dtype).div_(255)
        return laid_out_as(as_inputs, inputs)

    @abstractmethod
    def apply(self, inputs: Any, keys: NDArray[np.uint64]) -> Any:
        """The changed inputs, new, of checked ones; called by `__call__` only.

        image: uint8 [n, c, h, w], n > 0, to uint8 of the same shape. text: a list of lists of
        tokens to another one. features: a numpy array, float64 [n, width], n > 0, to another one.
        """

    def _checked_images(self, x: Tensor) -> Tensor:
        import torch

        if not isinstance(x, torch.Tensor):
            raise InputError(
                self._whose,
                f"needs images as a tensor [n, c, h, w], such as torch.from_numpy gives, not"
                f" {type(x).__name__}",
            )
        if (
            x.ndim != 4
            or x.shape[1] not in (1, 3)
            or not (x.dtype == torch.uint8 or x.is_floating_point())
        ):
            shape = f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}"
            remedy = ""
            if x.ndim == 4 and x.shape[3] in (1, 3):
                remedy = "; put the channels second, x.permute(0, 3, 1, 2)"
            raise InputError(
                self._whose,
                f"needs images of 1 or 3 channels, uint8 or float [n, c, h, w], not {shape}{remedy}",
            )
        if x.dtype == torch.uint8 or x.numel() == 0:
            return x
        low, high = x.aminmax()
        if not (low >= 0 and high <= 1):
            problem = f"needs float images in [0, 1], not in [{low:g}, {high:g}]"
            raise InputError(self._whose, problem)
        return x.mul(255).round_().to(torch.uint8)

    def _checked_vectors(self, x: Any) -> NDArray[np.float64]:
        from torch import Tensor

        if not isinstance(x, Tensor) or x.ndim != 2 or not x.is_floating_point():
            kind = f"{str(x.dtype).removeprefix('torch.')} " if isinstance(x, Tensor) else ""
            shape = f"{kind}{list(x.shape)}" if hasattr(x, "shape") else shown(x)
            raise InputError(self._whose, f"needs a tensor of floats [n, width], not {shape}")
        self.check_shape(tuple(x.shape[1:]))
        # On the processor and in double precision: a row has the same bits wherever it is.
        vectors = x.detach().double().cpu().numpy()
        if np.isinf(vectors).any():
            row = int(np.argwhere(np.isinf(vectors))[0][0])
            raise InputError(self._whose, f"needs finite or missing numbers; row {row} has another")
        return np.ascontiguousarray(vectors)

    def _checked_texts(self, texts: Any) -> list[list[str]]:
        if isinstance(texts, str):
            raise InputError(
                self._whose,
                f"needs a list of texts, each a list of tokens, not the text {shown(texts)}",
            )
        for tokens in texts:
            if isinstance(tokens, str) or not all(isinstance(token, str) for token in tokens):
                raise InputError(
                    self._whose, f"needs each text as a list of tokens, not as {shown(tokens)}"
                )
        return [list(tokens) for tokens in texts]
