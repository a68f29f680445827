"""Data sets that a program has already: a data frame with images, and a data set of torch with a
frame of attributes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, shown
from crosswind.core.types import InputSpec, column_name, listed
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.frames import frame_of
from crosswind.data.one_value import doubts_of
from crosswind.data.sources.columns import of_columns, with_inputs
from crosswind.data.sources.packed_texts import contents_of
from crosswind.data.sources.tables import Table
from crosswind.data.spellings import shown_apart
from crosswind.data.table_inputs import MOST_REPEATED_VALUES, numbers_of, why_code, why_no_input
from crosswind.data.tabular import NoValue, has_column

if TYPE_CHECKING:
    from polars import DataFrame


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
    size: int = 64,
    unit: str | None = None,
    columns: str | Sequence[str] | None = None,
) -> AttributedDataset:
    """The data set of a frame with one row an example and columns of attributes.

    `frame`: polars, pandas, Arrow, or a mapping from name to values. The input of a model is one of
    three. `images` is a folder, under which `path_column` names the file of each row, read at
    `size` x `size` as the source `table` does. Or it is an array uint8 [n, h, w] or [n, h, w, 3] in
    the order of the frame, which is held as it is. `text` is the column of texts, or those of a
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
    columns, label, unit = _listed(columns), column_name(label), column_name(unit)
    if label is not None:
        has_column(rows, label, "the frame", "label")
        if columns is not None:
            columns = list(dict.fromkeys([label, *columns]))
    if images is not None and not isinstance(images, str | Path):
        taken = (path_column,) if path_column in rows.columns else ()
        return _held(rows, _uint8(np.asarray(images)), name, unit, columns, taken)
    if all(inputs is None for inputs in (images, numbers, categories, text)):
        used_columns = {label, unit, *(columns or ())}
        numbers, categories = _all_inputs(rows, label, used_columns)
        columns = columns or [str(label)]
    path_of_images = None if images is None else str(images)
    bins_by_column = None if bins is None else dict(bins)
    text_columns = text if isinstance(text, str) else _listed(text)
    table = Table(
        path=name,
        images=path_of_images,
        text=text_columns,
        numbers=_listed(numbers),
        categories=_listed(categories),
        bins=bins_by_column,
        path_column=path_column,
        size=size,
        unit=unit,
        empty=empty,
        blank="leave-out" if empty == "leave-out" else "refuse",
        columns=_listed(columns),
    )
    try:
        dataset = table.of(rows, f"the frame {name!r}").dataset
    except NoValue as error:
        remedy = 'fill it in, or say empty="leave-out"'
        raise DataError(f"{error}; {remedy}") from None
    return replace(dataset, notes=(*dataset.notes, *_alike(dataset)))


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
    n = len(dataset)
    pixels: list[NDArray[np.uint8]] = []
    labels: list[Any] = []
    for position in range(n):
        sample = dataset[position]
        image, *other_values = sample if isinstance(sample, tuple | list) else (sample,)
        pixels.append(_image(image, f"item {position} of {name!r}"))
        if other_values and not isinstance(other_values[0], dict):
            labels += [int(other_values[0])]
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
    if len(labels) == n and label not in frame:
        classes = getattr(dataset, "classes", None)
        frame[label] = [str(classes[value]) for value in labels] if classes else labels
    if not frame:
        raise InputError(
            "attributes", f"is needed: the items of {name!r} have no label that could be one"
        )
    rows = frame_of(frame, "attributes")
    return _held(rows, np.stack(pixels), name, unit, columns, ())


def of_inputs(inputs: Any, spec: InputSpec, name: str = "inputs") -> AttributedDataset:
    """The data set of inputs alone, n rows of what `spec` says: images, features, or a list of
    texts. Raises `InputError` for an array of another shape."""
    if spec.kind == "text":
        texts = np.empty(len(inputs), dtype=object)
        texts[:] = [str(text) for text in inputs]
        array: NDArray[Any] = texts
        contents = contents_of(texts)
    else:
        array = np.asarray(inputs)
        if array.shape[1:] != spec.shape or (spec.kind == "image") != (array.dtype == np.uint8):
            problem = f"are {array.dtype} {list(array.shape)}, not {spec} [n, ...]"
            raise InputError("inputs", problem)
        array = np.ascontiguousarray(array, dtype=spec.dtype)
        contents = None
    if not len(array):
        raise InputError("inputs", "have no rows")
    codes = np.zeros((1, len(array)), dtype=np.uint8)
    rows = AttributeTable((Attribute("rows", ("-",)),), codes)
    plain = AttributedDataset(name, rows, distinct=frozenset())
    return with_inputs(plain, name, array, spec, contents)


def _held(
    rows: Any,
    pixels: NDArray[np.uint8],
    name: str,
    unit: str | None,
    columns: Sequence[str] | None,
    taken: Sequence[str],
) -> AttributedDataset:
    if len(pixels) != rows.height:
        problem = f"{name!r} has {len(pixels):,} images and {rows.height:,} rows of attributes"
        raise DataError(problem)
    plain = of_columns(rows, name, name, None if columns is None else list(columns), unit, taken)
    height, width, channels = pixels.shape[1:]
    spec = InputSpec.image(height, width, channels)
    return with_inputs(plain, name, pixels, spec)


def _image(image: Any, image_words: str) -> NDArray[np.uint8]:
    """uint8 [h, w, c] of one image."""
    if type(image).__module__.partition(".")[0] == "PIL":
        mode = "L" if image.mode in ("1", "L") else "RGB"
        converted = np.asarray(image.convert(mode), dtype=np.uint8)
        return converted.reshape(image.height, image.width, -1)
    array = np.asarray(image.detach().cpu() if hasattr(image, "detach") else image)
    if hasattr(image, "detach") and array.ndim == 3:
        array = array.transpose(1, 2, 0)
    if array.dtype.kind == "f":
        if not (array.min() >= 0 and array.max() <= 1):
            raise DataError(
                f"{image_words} has values outside 0 to 1: leave a normalisation out of the data"
                " set's transform"
            )
        array = np.round(array * 255).astype(np.uint8)
    return _uint8(array[None], image_words)[0]


def _uint8(images: NDArray[Any], image_words: str = "images") -> NDArray[np.uint8]:
    """uint8 [n, h, w, c] with 1 or 3 channels."""
    if images.ndim == 3:
        images = images[..., None]
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3):
        kinds = ("uint8 [h, w]", "uint8 [h, w, 1] or [h, w, 3]")
        problem = (
            f"{image_words}: must be {' or '.join(kinds)} each, not {images.dtype}"
            f" {shown(list(images.shape[1:]))}"
        )
        raise DataError(problem)
    return images
