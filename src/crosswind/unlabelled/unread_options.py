"""The options of a request for estimates that say something of other inputs than it is about, and
would not be heard."""

from __future__ import annotations

from pathlib import Path

from crosswind.core.errors import InputError
from crosswind.core.types import KINDS_OF_INPUTS
from crosswind.data.tabular import KINDS
from crosswind.unlabelled.number_tables import is_frame
from crosswind.unlabelled.request import NEAR_ROWS, POOL_ROWS, EstimateRequest

SCORES = "scores"
"""The kind of input of a request for estimates by tables of scores."""
_PICTURES, _TEXTS = ("image", "image-and-text"), ("text", "tokens", "image-and-text")
_OF_KINDS = {
    "size": ("the side of pictures", _PICTURES),
    "images": ("the folder of pictures that a table names", _PICTURES),
    "text": ("the columns of texts of a table", _TEXTS),
    "columns": ("the columns of numbers that a model reads", ("features",)),
}
"""What an option means, and the kinds of inputs for which it is heard."""
_OF_MODELS = {
    "settings": "the settings of a model",
    "beside_classes": "the order of the outputs of models beside",
}
"""What an option means that no table of scores has."""
_NUMBERS_OF_ROWS = {"pool_rows": POOL_ROWS, "near_rows": NEAR_ROWS}
"""Numbers of rows that a model is asked about, and the usual ones; 0 asks about none anywhere."""


def refuse_unread(request: EstimateRequest, kind: str) -> None:
    """Refuse the first option of the request that is not heard where its inputs are of a kind of
    `KINDS_OF_INPUTS`, or `SCORES`. Raises `InputError`."""
    subject = KINDS_OF_INPUTS.get(kind, "tables of scores")
    for field, (meaning, kinds) in _OF_KINDS.items():
        if getattr(request, field) is not None and kind not in kinds:
            raise _unread(field, f"means {meaning}, and the estimates are of {subject}")
    if kind == SCORES:
        _refuse_of_models(request)
    else:
        _refuse_of_rows(request)


def _refuse_of_models(request: EstimateRequest) -> None:
    """Refuse what is said of a model, beside tables of scores."""
    for field, meaning in _OF_MODELS.items():
        if getattr(request, field):
            raise _unread(field, f"means {meaning}, and the estimates are of tables of scores")
    for field, usual in _NUMBERS_OF_ROWS.items():
        if getattr(request, field) not in (0, usual):
            raise _unread(field, "is of rows that a model is asked about, and scores have none")


def _refuse_of_rows(request: EstimateRequest) -> None:
    """Refuse what is said of models, labels and files that the request does not name."""
    rows_named = request.data, request.source
    if request.beside_classes and not request.beside:
        problem = "means the order of the outputs of models beside, and there are none"
        raise _unread("beside_classes", problem)
    if request.settings and not isinstance(request.model, str | Path):
        raise _unread("settings", "are of a model that a word names, and this one is a program's")
    if request.size is not None and all(
        rows is None or hasattr(rows, "table") for rows in rows_named
    ):
        raise _unread(
            "size", "means the side of pictures that are read, and a data set has its own"
        )
    for field in ("images", "text"):
        if getattr(request, field) is not None and not any(map(_is_table, rows_named)):
            raise _unread(field, f"means {_OF_KINDS[field][0]}, and neither data nor source is one")


def refuse_unread_of_frames(request: EstimateRequest) -> None:
    """Refuse the first option that is not heard where a classifier of the program is asked about
    frames and arrays. Raises `InputError`."""
    for field in ("size", "images"):
        if getattr(request, field) is not None:
            raise _unread(field, f"means {_OF_KINDS[field][0]}, and the rows are a table's")
    for field in ("beside", "beside_classes"):
        if getattr(request, field):
            problem = (
                "is of models beside, which are compared on data sets and files, not on frames"
            )
            raise _unread(field, problem)


def _unread(field: str, problem: str) -> InputError:
    return InputError(field, f"{problem}; leave it out")


def _is_table(rows: object) -> bool:
    """Whether rows are a table's file, or a table that the program holds."""
    is_file = isinstance(rows, str | Path) and Path(rows).suffix.lower() in KINDS
    return is_file or is_frame(rows)
