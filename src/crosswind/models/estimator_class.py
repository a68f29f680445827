"""Classifiers with `fit` and `predict` of scikit-learn and libraries like it: found by name, and
read from files that hold no code.

Planning asks before any work, so nothing here needs torch.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosswind.core.errors import InputError, one_line, shown, unknown

__all__ = [
    "PACKAGES",
    "check_estimator",
    "check_texts",
    "estimator_of",
    "loaded_estimator",
    "reads_texts",
    "setting_names",
    "vectorizer_of",
    "weight_argument",
]

PACKAGES = ("sklearn", "numpy", "scipy", "collections", "xgboost", "lightgbm", "catboost")
"""The packages whose types a skops file may hold without its reader's word."""
_HOOKS = ("fit", "predict", "get_params", "set_params")


def check_estimator(knobs: Mapping[str, Any], field: str) -> None:
    """Refuse, by an `InputError` on one of the knobs, an estimator that cannot be made."""
    if knobs["file"] is not None and not Path(knobs["file"]).is_file():
        problem = f"there is no file {str(knobs['file'])!r}"
        raise InputError(f"{field}.file", problem)
    estimator_of(knobs, field)
    vectorizer_of(knobs, field)


def check_texts(knobs: Mapping[str, Any], field: str) -> None:
    """Refuse, by an `InputError`, an estimator that cannot read the words of texts: they are sparse
    numbers, one for each word of all training rows."""
    estimator = estimator_of(knobs, field)
    if not (reads_texts(estimator) or _takes_sparse(estimator)):
        raise InputError(
            f"{field}.estimator",
            f"{knobs['estimator']} takes no sparse numbers, and words of texts are such; name one that"
            " does",
            ("sklearn.linear_model.LogisticRegression", "sklearn.naive_bayes.ComplementNB"),
        )


def reads_texts(estimator: Any) -> bool:
    """Whether an estimator begins with a step that reads texts themselves, such as a
    vectorizer."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils import get_tags

    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[0][1]
    try:
        return bool(get_tags(estimator).input_tags.string)
    except Exception:  # of a library that does not know these tags
        return False


def vectorizer_of(knobs: Mapping[str, Any], field: str) -> Any:
    """A new vectorizer of words, as the knob `words` of model `sklearn` says. Raises `InputError` on
    one of its settings."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer()
    valid, _ = setting_names(vectorizer)
    for setting, value in (knobs["words"] or {}).items():
        if setting not in valid:
            raise unknown(f"{field}.words.{setting}", "setting of TfidfVectorizer", setting, valid)
        vectorizer.set_params(**{setting: tuple(value) if setting == "ngram_range" else value})
    _check_settings(vectorizer, "TfidfVectorizer", f"{field}.words")
    return vectorizer


def _takes_sparse(estimator: Any) -> bool:
    """Whether an estimator takes sparse numbers; one that does not say so is taken to."""
    from sklearn.utils import get_tags

    try:
        return bool(get_tags(estimator).input_tags.sparse)
    except Exception:  # of a library that does not know these tags
        return True


def estimator_of(knobs: Mapping[str, Any], field: str) -> Any:
    """A new estimator, as the knobs `estimator`, `settings` and `file` of model `sklearn` say.

    Raises `InputError` on one of them: a name that cannot be imported, what has no `fit`, `predict`
    and `get_params`, and a setting that the estimator does not have.
    """
    name = str(knobs["estimator"])
    if knobs["file"] is None:
        maker = _imported(name, f"{field}.estimator")
    else:
        maker = _of_file(Path(knobs["file"]), name, field)
    if knobs["file"] is None and not isinstance(maker, type):
        raise _no_classifier(f"{field}.estimator", name)
    if isinstance(maker, type) and any(not hasattr(maker, hook) for hook in _HOOKS):
        raise _no_classifier(f"{field}.estimator", name)
    try:
        estimator = maker()
    except Exception as error:  # whatever the code of somebody else does
        problem = f"{name} cannot be made ({type(error).__name__}: {one_line(str(error), 200)})"
        raise InputError(f"{field}.estimator", problem) from None
    if not _is_classifier(estimator):
        raise _no_classifier(f"{field}.estimator", name)
    valid, takes_others = setting_names(estimator)
    for setting, value in (knobs["settings"] or {}).items():
        path = f"{field}.settings.{setting}"
        if setting not in valid and not takes_others:
            raise unknown(path, f"setting of {name}", setting, valid)
        try:
            estimator.set_params(**{setting: value})
        except Exception as error:
            raise InputError(
                path, f"{name} does not take {shown(value)} ({one_line(str(error), 200)})"
            ) from None
    _check_settings(estimator, name, f"{field}.settings")
    return estimator


def setting_names(estimator: Any) -> tuple[list[str], bool]:
    """The settings of an estimator, sorted, and whether it takes others too (LightGBM, XGBoost)."""
    arguments = inspect.signature(type(estimator).__init__).parameters.values()
    named = {argument.name for argument in arguments if argument.kind is argument.KEYWORD_ONLY}
    named |= {
        argument.name for argument in arguments if argument.kind is argument.POSITIONAL_OR_KEYWORD
    }
    takes_others = any(argument.kind is argument.VAR_KEYWORD for argument in arguments)
    return sorted((named - {"self"}) | set(estimator.get_params())), takes_others


def weight_argument(estimator: Any) -> str | None:
    """The argument of `fit` that gives an estimator the weights of the training rows, to the last
    step of a pipeline; None where it takes none."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    steps: list[str] = []
    while isinstance(estimator, Pipeline):
        steps.append(estimator.steps[-1][0])
        estimator = estimator.steps[-1][1]
    # A search over settings hands what its fit is given on to the estimator within.
    within = getattr(estimator, "estimator", estimator)
    takes = any(has_fit_parameter(taker, "sample_weight") for taker in (estimator, within))
    if takes:
        return "__".join([*steps, "sample_weight"])
    return None


def _is_classifier(estimator: Any) -> bool:
    """Whether an object is a classifier: by its tags, or in libraries without such by what it can
    do."""
    from sklearn.utils import get_tags

    if isinstance(estimator, type) or any(not hasattr(estimator, hook) for hook in _HOOKS):
        return False
    try:
        kind = get_tags(estimator).estimator_type
    except Exception:  # of a library that does not know these tags
        kind = None
    if kind is not None:
        return kind == "classifier"
    return hasattr(estimator, "predict_proba")


def _check_settings(estimator: Any, name: str, field: str) -> None:
    """Refuse values that scikit-learn would refuse when it begins to fit."""
    validate = getattr(estimator, "_validate_params", None)
    if validate is None or not hasattr(estimator, "_parameter_constraints"):
        return
    try:
        validate()
    except ValueError as error:
        problem = one_line(str(error), 300)
        raise InputError(field, f"are none that {name} takes ({problem})") from None


def _no_classifier(field: str, name: str) -> InputError:
    return InputError(
        field,
        f"{name} is no classifier with fit, predict and get_params, as scikit-learn has them; name"
        " a class, such as sklearn.ensemble.RandomForestClassifier",
    )


def _imported(name: str, field: str) -> Any:
    """The class of an installed package that `package.module.Class` names."""
    if ".py:" in name:
        file, _, function = name.partition(":")
        raise InputError(
            field, f"a file is a setting of its own: file: {file}, estimator: {function}"
        )
    if name.endswith((".skops", ".onnx")):
        kind = name.rpartition(".")[2]
        raise InputError(
            field, f"names what is trained here; a fitted one is {kind}: {{path: {name}}}"
        )
    module, _, word = name.replace(":", ".").rpartition(".")
    try:
        return getattr(importlib.import_module(module), word)
    except (ImportError, AttributeError, ValueError) as error:
        problem = (
            f"{name!r} cannot be imported ({one_line(str(error), 200)}); write the class with its"
            " module, such as sklearn.ensemble.RandomForestClassifier"
        )
        raise InputError(field, problem) from None


def _of_file(file: Path, name: str, field: str) -> Any:
    """The object `name` of a Python file: a class, or a function without arguments."""
    from crosswind.models.given.function import module_of

    module = module_of(str(file), f"{field}.file")
    maker = getattr(module, name, None)
    if not callable(maker):
        problem = (
            f"there is no function {name!r} in {file.name}; it must give an estimator that is not"
            " fitted"
        )
        raise InputError(f"{field}.estimator", problem)
    return maker


def loaded_estimator(document: bytes, trusted: Sequence[str], field: str, name: str) -> Any:
    """The fitted estimator that a skops document holds.

    Types outside of scikit-learn, NumPy, SciPy, XGBoost, LightGBM and CatBoost are made only where
    `trusted` names them or their package. Raises `InputError` on `field`.
    """
    import skops.io

    try:
        unknown_types = skops.io.get_untrusted_types(data=document)
        foreign = []
        for type_name in unknown_types:
            if (
                type_name.partition(".")[0] not in (*PACKAGES, *trusted)
                and type_name not in trusted
            ):
                foreign.append(type_name)
        if foreign:
            raise InputError(
                f"{field}.trusted",
                f"{name} holds types that could run code of others: {', '.join(foreign[:5])}; name"
                " those that you know, if you know who made the file",
            )
        return skops.io.loads(document, trusted=unknown_types)
    except InputError:
        raise
    except Exception as error:  # of zipfile, json, importlib and skops
        problem = f"{name} cannot be read by skops ({one_line(str(error), 200)})"
        raise InputError(f"{field}.path", problem) from None
