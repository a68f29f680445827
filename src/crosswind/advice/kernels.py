"""Kernels that scikit-learn lacks: one on some columns, and one that tells whether columns agree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

Floats = NDArray[np.float64]


class Alike(Kernel):  # type: ignore[misc]
    """1 where two rows agree in all of `columns`, else 0: a random effect of a group.

    Numbers below 0 are of no known group and agree with nothing but themselves.
    """

    def __init__(self, columns: tuple[int, ...]) -> None:
        self.columns = columns

    def __call__(self, X: Floats, Y: Floats | None = None, eval_gradient: bool = False) -> Any:
        """The kernel of rows `X` [n, c] and `Y` [m, c] (None: `X`): float64 [n, m]; with
        `eval_gradient` also its gradient, which is empty [n, n, 0]."""
        columns = list(self.columns)
        other = X if Y is None else Y
        alike = (X[:, None, columns] == other[None, :, columns]).all(axis=2).astype(np.float64)
        if eval_gradient:
            return alike, np.empty((*alike.shape, 0))
        return alike

    def diag(self, X: Floats) -> Floats:
        """The kernel of each row with itself: ones [n]."""
        return np.ones(len(X))

    def is_stationary(self) -> bool:
        """Whether it depends on differences alone."""
        return True


class On(Kernel):  # type: ignore[misc]
    """A kernel on some columns of the rows; its hyperparameters are those of `kernel`."""

    def __init__(self, kernel: Kernel, columns: tuple[int, ...]) -> None:
        self.kernel = kernel
        self.columns = columns

    def __call__(self, X: Floats, Y: Floats | None = None, eval_gradient: bool = False) -> Any:
        """As `kernel` on the columns."""
        columns = list(self.columns)
        other = None if Y is None else Y[:, columns]
        return self.kernel(X[:, columns], other, eval_gradient)

    def diag(self, X: Floats) -> Floats:
        """As `kernel` on the columns."""
        return self.kernel.diag(X[:, list(self.columns)])

    def is_stationary(self) -> bool:
        """As `kernel`."""
        return self.kernel.is_stationary()

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """Those of `kernel`."""
        return [
            Hyperparameter(
                f"kernel__{entry.name}",
                entry.value_type,
                entry.bounds,
                entry.n_elements,
            )
            for entry in self.kernel.hyperparameters
        ]

    @property
    def theta(self) -> Floats:
        """The logarithms of the hyperparameters of `kernel`."""
        return self.kernel.theta

    @theta.setter
    def theta(self, theta: Floats) -> None:
        self.kernel.theta = theta

    @property
    def bounds(self) -> Floats:
        """The bounds of `theta`."""
        return self.kernel.bounds

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The kernel and its columns; with `deep` also the parameters of the kernel."""
        params: dict[str, Any] = {"kernel": self.kernel, "columns": self.columns}
        if deep:
            inner = self.kernel.get_params()
            params |= {f"kernel__{name}": value for name, value in inner.items()}
        return params
