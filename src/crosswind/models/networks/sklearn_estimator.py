"""Estimators of scikit-learn and libraries like it, trained by their own `fit` under every shift."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crosswind.core.errors import RunError, one_line
from crosswind.core.knobs import Form, knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.models.build import Backbone, Encoder, Model
from crosswind.models.estimator_class import (
    check_texts,
    estimator_of,
    loaded_estimator,
    reads_texts,
    setting_names,
    vectorizer_of,
    weight_argument,
)
from crosswind.models.networks.backbones import FlattenChannelsLast

__all__ = ["FittedClassifier", "SklearnEstimator"]

BYTES = 7
"""Bytes of a text in one number: below 2^63, which an int64 holds."""
_LEAST_SHARE = 1e-12
"""The share that stands for a class of no probability, whose logarithm there is none of."""


@register("sklearn", kind="model")
@dataclass(frozen=True)
class SklearnEstimator(Backbone):
    """A classifier of scikit-learn, XGBoost, LightGBM, CatBoost or of a file, fitted at once.

    It is given numbers as a table has them, the flattened pixels of images, or the words of texts.
    Numbers are scaled by the mean and the standard deviation of the training rows first. Where the
    estimator takes no missing ones (NaN), the median of the training rows stands for them and
    further columns say where they were. Words are weighted by scikit-learn's `TfidfVectorizer`,
    whose vocabulary and weights are the training rows' own; the first `text_bytes` of a text are
    read. A pipeline of a file that begins with a vectorizer is given the texts themselves. `fit`
    sees every training row once, with the weights of the study's sampler as
    `sample_weight`. Logits are logarithms of `predict_proba`, else the `decision_function`, else 0
    for the class of `predict` and -27.6 for the others. Weights of a run hold the estimator as
    skops writes it, without code. Methods that descend a gradient cannot train it: it is `erm`'s.
    """

    estimator: str = knob(
        "sklearn.ensemble.HistGradientBoostingClassifier",
        doc="package.module.Class; with `file` a class or function of it that gives an estimator",
    )
    settings: dict[str, Any] | None = knob(
        None, doc="arguments of the estimator by name; a seed (random_state) is the run's"
    )
    scale: bool = knob(True, doc="whether numbers are scaled by the training rows first")
    words: dict[str, Any] | None = knob(
        None, doc="arguments of TfidfVectorizer by name, of texts: {ngram_range: [1, 2]}"
    )
    text_bytes: int = knob(
        4096, domain="[1, inf)", doc="bytes that are read of a text, in UTF-8; the rest is cut off"
    )
    file: str | None = knob(None, doc="a Python file, beside the study or by its path")
    file_sha256: str | None = knob(None, doc="what the file must hash to")

    built = Form(
        norm="none",
        takes=("features", "image", "text", "tokens"),
        linear=False,
        gradient=False,
        folders={"file": "program"},
    )
    extra = "skops"

    def build(self, input: InputSpec, class_names: Sequence[str]) -> Model:
        """See `Backbone.build`."""
        width = math.prod(input.tensor_shape)
        seed = int(torch.randint(0, 2**31 - 1, ()))
        reads_texts = input.kind == "tokens"
        classifier = FittedClassifier(vars(self), seed, len(class_names), reads_texts)
        flatten = nn.Identity() if reads_texts else FlattenChannelsLast()
        children: dict[str, nn.Module] = {"flatten": flatten, "fc": classifier}
        return Model(children, stages={"input": ("flatten",)}, pool=(), head="fc", width=width)

    def encoder(self, input: InputSpec, seed: int, device: str = "cpu") -> Encoder | None:
        """Texts as numbers of seven bytes each: int64 [n, text_bytes / 7], 0 where a text has
        ended."""
        if input.kind != "text":
            return None
        length = -(-self.text_bytes // BYTES)
        spec = InputSpec.tokens(length, 256**BYTES)
        return Encoder(spec, lambda texts: _packed(texts, self.text_bytes, length))


def _packed(texts: NDArray[Any], n_bytes: int, length: int) -> NDArray[np.int64]:
    """The first bytes of texts [n] as int64 [n, length]."""
    eights = np.zeros((len(texts), length, 8), dtype=np.uint8)
    for row, text in enumerate(texts):
        utf8 = text.encode("utf-8", "replace")[:n_bytes].ljust(length * BYTES, b"\0")
        eights[row, :, :BYTES] = np.frombuffer(utf8, dtype=np.uint8).reshape(length, BYTES)
    return eights.view("<i8")[..., 0].astype(np.int64)


def _unpacked(tokens: NDArray[np.int64]) -> list[str]:
    """The texts that `_packed` made numbers of; a character that was cut is left out."""
    eights = np.ascontiguousarray(tokens.astype("<i8")).view(np.uint8)
    sevens = eights.reshape(*tokens.shape, 8)[..., :BYTES]
    return [row.tobytes().rstrip(b"\0").decode("utf-8", "ignore") for row in sevens]


class FittedClassifier(nn.Module):
    """Features [n, d] -> logits [n, k] of an estimator that `fit_rows_once` has fitted; evenly 0
    before. With `reads_texts` the features are packed texts, int64.

    `document`, uint8 [bytes], is the estimator as skops writes it; `classes`, int64 [m], are the
    classes that its training rows had. Both are weights of the run.
    """

    document: Tensor
    classes: Tensor
    any_shape = ("document", "classes")

    def __init__(
        self, knobs: Mapping[str, Any], seed: int, n_classes: int, reads_texts: bool = False
    ) -> None:
        super().__init__()
        self._reads_texts = reads_texts
        self._knobs = dict(knobs)
        self._seed = seed
        self._n_classes = n_classes
        self._estimator: Any = None
        self.register_buffer("document", torch.zeros(0, dtype=torch.uint8))
        self.register_buffer("classes", torch.zeros(0, dtype=torch.int64))

    def fit_rows_once(
        self, features: Tensor, labels: Tensor, weights: NDArray[np.float64] | None
    ) -> None:
        """Fit on features [n, d], labels int64 [n] and weights [n] of mean 1, None: all alike.

        Raises `RunError` where the estimator's own code fails, takes no weights, or gives what
        skops cannot write.
        """
        x = self._rows(features)
        classes, codes = np.unique(labels.cpu().numpy(), return_inverse=True)
        pipeline = self._unfitted()
        if weights is None:
            arguments = {}
        else:
            arguments = {self._weight_argument(pipeline): weights}
        with _few_threads():
            try:
                pipeline.fit(x, codes, **arguments)
            except Exception as error:  # whatever the code of somebody else does
                problem = f"{type(error).__name__}: {one_line(str(error), 200)}"
                raise RunError(f"{self._name} could not be fitted ({problem})") from error
        self._estimator = pipeline
        self.classes = torch.from_numpy(classes.astype(np.int64)).to(self.classes.device)
        document = torch.frombuffer(bytearray(_document(pipeline, self._name)), dtype=torch.uint8)
        self.document = document.to(self.document.device)

    def forward(self, features: Tensor) -> Tensor:
        """See the class."""
        logits = torch.zeros(len(features), self._n_classes)
        if len(self.document):
            x = self._rows(features)
            with _few_threads():
                scores = _scores(self._fitted(), x, len(self.classes))
            logits.fill_(math.log(_LEAST_SHARE))
            logits[:, self.classes.cpu()] = torch.from_numpy(scores.astype(np.float32))
        return logits.to(features.device)

    def _rows(self, features: Tensor) -> Any:
        """The rows as the pipeline takes them: numbers [n, d], or n texts."""
        x = features.detach().cpu().numpy()
        return _unpacked(x) if self._reads_texts else x

    def _weight_argument(self, pipeline: Any) -> str:
        if (argument := weight_argument(pipeline)) is None:
            raise RunError(f"the fit of {self._name} takes no weights of rows (sample_weight)")
        return argument

    @property
    def _name(self) -> str:
        return str(self._knobs["estimator"])

    def _unfitted(self) -> Any:
        """The estimator behind what prepares its inputs."""
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import Pipeline
        from sklearn.preprocessing import StandardScaler

        estimator = estimator_of(self._knobs, "model")
        own_values = {"random_state": self._seed}
        if not type(estimator).__module__.startswith("sklearn."):
            # There no number means every core; in scikit-learn it means one.
            own_values |= dict.fromkeys(("n_jobs", "thread_count"), torch.get_num_threads())
        values, (valid, _) = estimator.get_params(), setting_names(estimator)
        for name, value in own_values.items():
            if name in valid and values.get(name) is None:
                estimator.set_params(**{name: value})
        steps: list[tuple[str, Any]] = []
        if self._reads_texts:
            check_texts(self._knobs, "model")
            if not reads_texts(estimator):
                steps.append(("words", vectorizer_of(self._knobs, "model")))
            return Pipeline([*steps, ("estimator", estimator)])
        if self._knobs["scale"]:
            steps.append(("scale", StandardScaler()))
        if not _takes_missing(estimator):
            imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
            steps.append(("impute", imputer))
        return Pipeline([*steps, ("estimator", estimator)])

    def _fitted(self) -> Any:
        if self._estimator is None:
            package = self._name.partition(".")[0]
            document = self.document.cpu().numpy().tobytes()
            self._estimator = loaded_estimator(document, [package], "model", self._name)
        return self._estimator

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *arguments: Any
    ) -> None:
        """As in torch, but that a fitted estimator is of any length."""
        for name in self.any_shape:
            value = state_dict.get(f"{prefix}{name}")
            if value is not None:
                setattr(self, name, torch.empty_like(value, device=getattr(self, name).device))
        self._estimator = None
        super()._load_from_state_dict(state_dict, prefix, *arguments)


def _few_threads() -> Any:
    """Inside, the libraries below an estimator take as many threads as torch does here."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(torch.get_num_threads())


def _takes_missing(estimator: Any) -> bool:
    """Whether an estimator says that its inputs may be NaN."""
    from sklearn.utils import get_tags

    try:
        return bool(get_tags(estimator).input_tags.allow_nan)
    except Exception:  # of a library that does not know these tags
        return False


def _document(pipeline: Any, name: str) -> bytes:
    import skops.io

    try:
        document: bytes = skops.io.dumps(pipeline)
    except Exception as error:
        problem = f"{name} was fitted, and skops cannot write it ({one_line(str(error), 200)})"
        raise RunError(problem) from error
    return document


def _scores(pipeline: Any, x: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """Logits [n, m] of the classes that an estimator was fitted on."""
    if hasattr(pipeline, "predict_proba"):
        shares = np.asarray(pipeline.predict_proba(x), dtype=np.float64)
        return np.log(np.maximum(shares, _LEAST_SHARE))
    if hasattr(pipeline, "decision_function"):
        decisions = np.asarray(pipeline.decision_function(x), dtype=np.float64)
        if decisions.ndim == 1:
            return np.stack([-decisions, decisions], axis=1) / 2
        if decisions.shape[1] == n_classes:
            return decisions
    answers = np.asarray(pipeline.predict(x)).reshape(-1).astype(np.int64)
    return np.where(answers[:, None] == np.arange(n_classes), 0.0, math.log(_LEAST_SHARE))
