"""Data sets that a program has already: a data frame with images, and a data set of torch with a
frame of attributes."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, shown
from crosswind.core.types import InputSpec, listed, one_column
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.frames import frame_of
from crosswind.data.held_pictures import how_to_make, picture_of, pictures_of
from crosswind.data.one_value import doubts_of
from crosswind.data.sources.columns import LEAVE_BLANK_OUT, of_columns, with_inputs
from crosswind.data.sources.packed_texts import contents_of, joined
from crosswind.data.sources.tables import Table
from crosswind.data.spellings import shown_apart
from crosswind.data.table_inputs import (
    MOST_REPEATED_VALUES,
    numbers_of,
    why_code,
    why_no_input,
    with_bins,
    without_missing,
)
from crosswind.data.tabular import NoValue, has_column

if TYPE_CHECKING:
    from polars import DataFrame

_FILL_IN = 'fill it in, or say empty="leave-out"'


def from_frame(
    frame: Any,
    images: str | Path | NDArray[np.uint8] | None = None,
    *,
    label: str | None = None,
    numbers: str | Sequence[str] | None = None,
    categories: str | Sequence[str] | None = None,
    text: str | Sequence[str] | None = None,
    bins: Mapping[str, Any] | None = None,
    empty: str | None = None,
    name: str = "frame",
    path_column: str = "path",
    size: int | None = None,
    unit: str | None = None,
    columns: str | Sequence[str] | None = None,
) -> AttributedDataset:
    """The data set of a frame with one row an example and columns of attributes.

    `frame`: polars, pandas, Arrow, or a mapping from name to values. The input of a model is one of
    three. `images` is a folder, under which `path_column` names the file of each row, read at
    `size` x `size` (64 by default) as the source `table` does. Or it is an array uint8 [n, h, w] or
    [n, h, w, 3] in the order of the frame, which is held as it is. `text` is the column of texts, or those of a
    text's parts. `numbers` and `categories` are columns that are inputs as the source `table` has
    them. Where none is named and `label` is, every other column but `columns` and `unit` is an
    input: those of more than 20 different numbers as numbers, the others as categories. A column of
    dates, or of another value in nearly every row, is refused there.

    `label`: a column that is an attribute whatever `columns` says. `bins`: column of numbers ->
    increasing numbers that part it into classes. `empty`: what becomes of a row without a value in
    an attribute, "refuse", "leave-out" or "value"; by "leave-out" one without a picture or a text
    is left out too. `unit`: the column whose equal values are kept in one role. `columns`: which are
    attributes; by default all that are not inputs. Raises `InputError` for settings,
    `DataError` for what frame, folder or array hold.
    """
    rows = frame_of(frame, "frame")
    label, unit = one_column(label, "label"), one_column(unit, "unit")
    columns = _listed(columns)
    if label is not None:
        has_column(rows, label, "the frame", "label")
        if columns is not None:
            columns = list(dict.fromkeys([label, *columns]))
    if _is_held(images):
        unread = {"numbers": numbers, "categories": categories, "text": text, "size": size}
        _refuse_beside_pictures(unread)
        taken = (path_column,) if path_column in rows.columns else ()
        dataset = _held(
            rows, pictures_of(images), name, unit, columns, taken, bins=bins, empty=empty
        )
        return replace(dataset, notes=(*dataset.notes, *_alike(dataset)))
    if all(inputs is None for inputs in (images, numbers, categories, text)):
        used_columns = {label, unit, *(columns or ())}
        numbers, categories = _all_inputs(rows, label, used_columns)
        columns = columns or [str(label)]
    path_of_images = None if images is None else str(images)
    bins_by_column = None if bins is None else _plain_bins(bins)
    text_columns = text if isinstance(text, str) else _listed(text)
    table = Table(
        path=name,
        images=path_of_images,
        text=text_columns,
        numbers=_listed(numbers),
        categories=_listed(categories),
        bins=bins_by_column,
        path_column=path_column,
        size=64 if size is None else size,
        unit=unit,
        empty=empty,
        blank="leave-out" if empty == "leave-out" else "refuse",
        columns=_listed(columns),
    )
    dataset = _of_table(table, rows, f"the frame {name!r}")
    return replace(dataset, notes=(*dataset.notes, *_alike(dataset)))


def _plain_bins(bins: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers that part classes as lists, arrays among them."""
    return {name: cuts.tolist() if hasattr(cuts, "tolist") else cuts for name, cuts in bins.items()}


def _of_table(table: Table, rows: DataFrame, name: str) -> AttributedDataset:
    """The data set that a table makes of rows, refused in the words of `from_frame`."""
    try:
        return table.of(rows, name).dataset
    except NoValue as error:
        raise DataError(f"{error}; {_FILL_IN}") from None
    except DataError as error:
        raise DataError(str(error).replace(LEAVE_BLANK_OUT, 'empty="leave-out"')) from None


def _is_held(images: Any) -> bool:
    """Whether images are held by the program, and are no folder."""
    return images is not None and not isinstance(images, str | Path)


def _refuse_beside_pictures(settings: Mapping[str, Any]) -> None:
    """Refuse settings that an array of pictures leaves nothing to do for. Raises `InputError`."""
    for name, value in settings.items():
        if value is None:
            continue
        if name == "size":
            raise InputError(
                "size",
                "is of pictures in files, and an array has its own; resize it, or leave it out",
            )
        raise InputError(
            name,
            "names columns that a model reads, and images are its inputs already; name either the"
            " images, or text, or numbers and categories",
        )


def _alike(dataset: AttributedDataset) -> Iterator[tuple[str, str]]:
    """A note on each attribute with values that may be one: nobody has said yet whether they
    are, and they are taken as different ones."""
    for attribute in dataset.table.names:
        for values in doubts_of(dataset, attribute)[:1]:
            quoted = " and ".join(shown_apart(values))
            yield (
                attribute,
                f"{attribute}: {quoted} may be one value and are taken as different ones:"
                " cw.with_same makes them one, cw.with_distinct says that they differ",
            )


def _listed(names: str | Sequence[str] | None) -> list[str] | None:
    """Names of columns as a list, of which a text alone is one."""
    return None if names is None else listed(names)


def _all_inputs(
    rows: DataFrame, label: str | None, used_columns: Collection[str | None]
) -> tuple[list[str] | None, list[str] | None]:
    """The columns of a frame that are inputs where only its label is named, as numbers and as
    categories; None for no such column."""
    if label is None:
        raise InputError(
            "images",
            "is needed, or numbers, categories or text: which columns a model reads; with a label"
            " alone it reads all others",
        )
    inputs = [name for name in rows.columns if name not in used_columns]
    unread = {name: why for name in inputs if (why := why_no_input(rows, name))}
    numbers = [name for name in inputs if name not in unread and _is_numbers(rows, name)]
    categories = [name for name in inputs if name not in unread and name not in numbers]
    if unread:
        described = ", ".join(f"{name!r} ({why})" for name, why in unread.items())
        named_inputs = ", ".join(
            f"{setting}={names!r}"
            for setting, names in (("numbers", numbers), ("categories", categories))
            if names
        )
        raise InputError(
            "numbers",
            f"no model learns from {described} as it stands: name the inputs"
            f"{f', such as {named_inputs}' if named_inputs else ''}, or drop the column",
        )
    return numbers or None, categories or None


def _is_numbers(rows: DataFrame, name: str) -> bool:
    """Whether a column holds numbers, as such or as text, and more different ones than a category
    has."""
    column = rows.get_column(name)
    if not column.dtype.is_numeric():
        try:
            numbers = numbers_of(rows, name, "")
        except DataError:
            return False
        if why_code(column, name, numbers):
            return False
    return bool(column.drop_nulls().n_unique() > MOST_REPEATED_VALUES)


def from_torch(
    dataset: Any,
    attributes: Any = None,
    *,
    name: str = "torch",
    label: str = "label",
    unit: str | None = None,
    columns: str | Sequence[str] | None = None,
) -> AttributedDataset:
    """The data set of a map-style data set of torch, whose items are an image, or an image and a
    label.

    An image is a PIL image, a tensor [c, h, w] of uint8 or of floats in [0, 1], or an array uint8
    [h, w] or [h, w, c]. All of one size. Every item is read once, here, and held. A random
    transform would be drawn once: leave it out and name a method that augments. `attributes`: a
    polars or pandas frame, or a mapping, in the order of the data set. A label of the items is an
    attribute too, called `label`, by the names of `dataset.classes` where there are any, unless
    `attributes` has that column. `unit` and `columns` are those of `from_frame`.

    Raises `InputError` for settings, `DataError` for items that are no images of one size.
    """
    pixels, labels = _items_of(dataset, name)
    if not pixels:
        raise DataError(f"the data set {name!r} has no items")
    shapes = {image.shape for image in pixels}
    if len(shapes) > 1:
        problem = (
            f"the items of {name!r} have {len(shapes)} sizes, such as"
            f" {' and '.join(map(str, sorted(shapes)[:2]))}"
        )
        raise DataError(problem)
    if attributes is None:
        frame = {}
    else:
        frame = frame_of(attributes, "attributes").to_dict(as_series=False)
    if len(labels) == len(pixels) and label not in frame:
        frame[label] = labels
    if not frame:
        raise InputError(
            "attributes", f"is needed: the items of {name!r} have no label that could be one"
        )
    rows = frame_of(frame, "attributes")
    return _held(rows, np.stack(pixels), name, unit, columns, ())


def _items_of(dataset: Any, name: str) -> tuple[list[NDArray[np.uint8]], list[int | str]]:
    """The pictures of a data set of torch, and the labels of the items that have one. Raises
    `InputError` for what is no such data set, `DataError` for its items."""
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise InputError("dataset", _why_no_items(dataset))
    classes = [str(value) for value in getattr(dataset, "classes", None) or ()]
    pixels: list[NDArray[np.uint8]] = []
    labels: list[int | str] = []
    for position in range(len(dataset)):
        sample = dataset[position]
        image, *other_values = sample if isinstance(sample, tuple | list) else (sample,)
        item_words = f"item {position} of {name!r}"
        pixels.append(picture_of(image, item_words))
        if other_values and not isinstance(other_values[0], dict):
            labels.append(_label_of(other_values[0], classes, item_words))
    return pixels, labels


def _why_no_items(dataset: Any) -> str:
    """Why something is no map-style data set, with the remedy."""
    remedy = "call list on it first"
    if hasattr(dataset, "dataset"):
        remedy = "give its .dataset, without a loader around it"
    return (
        f"must be a data set of torch with a length and an item for each number, not"
        f" {type(dataset).__name__}; {remedy}"
    )


def _label_of(value: Any, classes: Sequence[str], item: str) -> int | str:
    """The label of an item: its class by name where the data set has `classes`, else its number or
    text. Raises `DataError` for what is no single class."""
    if isinstance(value, str):
        return str(value)
    array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    if array.size == 1 and array.dtype.kind in "biuf" and float(array.item()).is_integer():
        number = int(array.item())
        if not classes:
            return number
        if 0 <= number < len(classes):
            return classes[number]
        raise DataError(
            f"{item} has the label {number}, and the data set names {len(classes)} classes, 0 to"
            f" {len(classes) - 1}; mend its classes, or give the labels as a column of attributes"
        )
    raise DataError(
        f"{item} has the label {shown(value)}, which is no single class; its label must be a whole"
        " number or a text, or give the labels as a column of attributes"
    )


def of_inputs(inputs: Any, spec: InputSpec, name: str = "inputs") -> AttributedDataset:
    """The data set of inputs alone, n rows of what `spec` says: images, features, or a list of
    texts, a text of several parts as a tuple. Raises `InputError` for something else."""
    if spec.kind == "text":
        array: NDArray[Any] = texts_of(inputs, name)
        contents = contents_of(array)
    else:
        array = _numbers_of(inputs, spec, name)
        contents = None
    if not len(array):
        raise InputError(name, "have no rows")
    codes = np.zeros((1, len(array)), dtype=np.uint8)
    rows = AttributeTable((Attribute("rows", ("-",)),), codes)
    plain = AttributedDataset(name, rows, distinct=frozenset())
    return with_inputs(plain, name, array, spec, contents)


def texts_of(inputs: Any, field: str = "inputs") -> NDArray[np.object_]:
    """Texts as an array of objects [n], of which one of several parts, as a tuple or a list of
    texts, is joined. Raises `InputError` for what is no list of texts."""
    if isinstance(inputs, str | bytes):
        raise InputError(field, "are a single text, and a list of texts is needed, [text]")
    if isinstance(inputs, Mapping) or hasattr(inputs, "columns"):
        columns = inputs
        if not isinstance(inputs, Mapping):
            columns = getattr(inputs, "column_names", None) or inputs.columns
        names = list(map(str, columns))
        raise InputError(
            field,
            "are a table, and a list of texts is needed: give its column of texts, table[NAME]",
            names,
        )
    if not hasattr(inputs, "__iter__"):
        raise InputError(field, f"must be a list of texts, not {shown(inputs)}")
    rows = list(inputs)
    texts = np.empty(len(rows), dtype=object)
    for number, row in enumerate(rows):
        if isinstance(row, str):
            texts[number] = str(row)
        elif _is_texts(row):
            texts[number] = joined(row)
        else:
            raise InputError(field, f"must be texts, and row {number + 1} is {shown(row)}")
    return texts


def _is_texts(row: Any) -> bool:
    """Whether a row is the parts of a text."""
    if isinstance(row, np.ndarray):
        row = row.tolist()
    return isinstance(row, list | tuple) and bool(row) and all(isinstance(_, str) for _ in row)


def _numbers_of(inputs: Any, spec: InputSpec, field: str) -> NDArray[Any]:
    """Images or features of n rows as `spec` says. Raises `InputError` for something else."""
    try:
        array = np.asarray(inputs)
    except ValueError:
        raise InputError(field, f"have rows of several sizes, not {spec} [n, ...]") from None
    is_image = spec.kind == "image"
    if not is_image and array.dtype == object:
        with contextlib.suppress(TypeError, ValueError):
            array = array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        raise InputError(field, f"must be numbers, {spec} [n, ...], not {shown(inputs)}")
    if array.shape[1:] != spec.shape or is_image != (array.dtype == np.uint8):
        remedy = how_to_make(array, spec) if is_image else ""
        problem = f"are {array.dtype} {list(array.shape)}, not {spec} [n, ...]{remedy}"
        raise InputError(field, problem)
    return np.ascontiguousarray(array, dtype=spec.dtype)


def _held(
    rows: DataFrame,
    pixels: NDArray[np.uint8],
    name: str,
    unit: str | None,
    columns: Sequence[str] | None,
    taken: Sequence[str],
    *,
    bins: Mapping[str, Any] | None = None,
    empty: str | None = None,
) -> AttributedDataset:
    """The data set of a frame and an array of pictures in its order; see `from_frame`."""
    if len(pixels) != rows.height:
        problem = f"{name!r} has {len(pixels):,} images and {rows.height:,} rows of attributes"
        raise DataError(problem)
    if bins is not None:
        rows = with_bins(rows, dict(bins), name, "bins")
    chosen = None if columns is None else list(columns)
    used_columns = [column for column in rows.columns if column not in taken]
    if chosen is not None:
        used_columns = [column for column in used_columns if column in (*chosen, unit)]
    rows, row_numbers, notes = without_missing(rows, used_columns, empty, "empty")
    if not rows.height:
        raise DataError(f"{name!r} has no row with a value in every attribute")
    try:
        plain = of_columns(rows, name, name, chosen, unit, taken)
    except NoValue as error:
        raise DataError(f"{error}; {_FILL_IN}") from None
    if len(row_numbers) < len(pixels):
        pixels = pixels[row_numbers]
        plain = replace(plain, ids=row_numbers)
    plain = replace(plain, notes=(*plain.notes, *notes))
    height, width, channels = pixels.shape[1:]
    spec = InputSpec.image(height, width, channels)
    return with_inputs(plain, name, pixels, spec)
