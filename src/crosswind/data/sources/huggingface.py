"""Any image data set of the library `datasets`: one that it fetches by its id, or what was exported or kept as files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import card_of
from crosswind.core.errors import CrosswindError, DataError, InputError, one_line, unknown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import digest_arrays
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.decoding import IMAGE_ENDINGS, Refused
from crosswind.data.sources.base import PreparedSource, Reading, from_files, names_chosen

if TYPE_CHECKING:
    from datasets import Dataset

SPLIT = "split"


@register("huggingface", kind="source")
@dataclass(frozen=True)
class HuggingFace(PreparedSource):
    """A data set of the library `datasets` (extra `huggingface`): by `id`, as its hub has it, or by `path`, from local files.

    `path` is a folder that `save_to_disk` wrote, a Parquet or Arrow file, or a folder of Parquet files, of Arrow files or of images
    (`imagefolder`, with its metadata). An `id` is fetched by `datasets` into its own cache, which needs the network; `revision`
    pins what it is. Code that comes with a data set is never run.
    `image` names the column of images, which may be left out where there is one alone. Attributes are the columns with named
    classes and those of true and false, or `columns`: their values have the names of the classes, or the texts of the cells; those
    that no row has are left out. Of several `splits` (all by default) the rows follow each other, and `split` is an attribute.
    Images are turned as their EXIF data say, made RGB (transparency is dropped), and resized to `size` x `size` without keeping
    their proportions. The fingerprint counts the bytes of each image and does not read them.
    Reference: Q. Lhoest et al., Datasets: A Community Library for Natural Language Processing, EMNLP 2021.
    """

    id: str | None = knob(None, doc="the data set's name on the hub, such as OWNER/NAME; needs the network")
    path: str | None = knob(None, doc="local files instead: save_to_disk, Parquet, Arrow, or a folder of images")
    config: str | None = knob(None, doc="which configuration of the id")
    revision: str | None = knob(None, doc="commit or tag of the id; the newest by default")
    splits: list[str] | None = knob(None, doc="which splits, in order; all by default")
    image: str | None = knob(None, doc="the column of images; the only one by default")
    columns: list[str] | None = knob(None, doc="columns that are attributes; those of named classes and of booleans by default")
    unit: str | None = knob(None, doc="column whose equal values belong together")
    size: int = knob(64, domain="[4, 2048]", doc="side of the pictures in pixels")

    own = ("path",)
    extra = "huggingface"
    card = card_of("huggingface")

    def read(self, folder: Path) -> Reading:
        """The chosen splits. Raises `InputError` for settings, `DataError` for what cannot be had or read."""
        name = self._name()
        with _told(name):
            parts = self._parts(name)
            image = self._image(parts)
            table = self._table(parts, image, name)
            units = None
            if self.unit is not None:
                from crosswind.data.tabular import group_codes, texts

                _has_column(parts, self.unit, "unit")
                units = group_codes(texts(_frame(parts, self.unit), self.unit, name))
            bytes_of = np.concatenate([_sizes(part, image, f"{name}, {label}") for label, part in parts.items()])
        place = Path(name).expanduser().resolve() if self.path is not None else (name, self.config, self.revision)
        lengths = {label: len(part) for label, part in parts.items()}
        opened, named = _images(parts, image, name)
        dataset = from_files(
            name.rstrip("/").rpartition("/")[2] or "huggingface",
            table,
            opened,
            named,
            self.size,
            told={
                "source": "huggingface",
                "bytes": digest_arrays({"bytes": bytes_of}),
                "units": None if units is None else digest_arrays({"units": units}),
            },
            units=units,
            origin=f"huggingface {place} {list(parts)}",
        )
        return Reading(dataset, lengths)

    def _name(self) -> str:
        """What errors call the data set."""
        if (self.id is None) == (self.path is None):
            both = "not both" if self.id is not None else "one of them is needed"
            raise InputError("huggingface.id", f"give the id of a data set of the hub or the path of local files, {both}")
        if self.path is not None:
            for setting in ("config", "revision"):
                if getattr(self, setting) is not None:
                    raise InputError(f"huggingface.{setting}", "is of a data set of the hub, and 'path' names local files")
            return self.path
        return str(self.id)

    def _parts(self, name: str) -> dict[str, Dataset]:
        """The chosen splits by name; `all` where there are none."""
        found = (
            _from_hub(self.id, self.config, self.revision) if self.id is not None else _from_files(Path(name).expanduser(), name)
        )
        chosen = list(found) if self.splits is None else names_chosen(self.splits, "huggingface.splits", "split", found)
        for split in chosen:
            if found[split].features != found[chosen[0]].features:
                raise DataError(
                    f"{name}: the splits {chosen[0]!r} and {split!r} have different columns; choose among them with splits"
                )
            if not len(found[split]):
                raise DataError(f"{name}: the split {split!r} has no rows")
        return {split: found[split] for split in chosen}

    def _image(self, parts: Mapping[str, Dataset]) -> str:
        """The column of images."""
        features = next(iter(parts.values())).features
        kinds = {column: _kind(feature) for column, feature in features.items()}
        named = [column for column, kind in kinds.items() if kind == "image"]
        if self.image is not None:
            _has_column(parts, self.image, "image")
            if kinds[self.image] not in ("image", "binary"):
                raise InputError("huggingface.image", f"the column {self.image!r} holds no images but {kinds[self.image]}", named)
            return self.image
        if len(named) != 1:
            problem = f"there are {len(named)} columns of images; name one" if named else "there is no column of images"
            raise InputError("huggingface.image", problem, named or list(features))
        return named[0]

    def _table(self, parts: Mapping[str, Dataset], image: str, name: str) -> AttributeTable:
        features = next(iter(parts.values())).features
        if self.columns is None:
            chosen = [
                column for column, feature in features.items() if _kind(feature) in ("classes", "bool") and column != self.unit
            ]
            if not chosen:
                raise InputError(
                    "huggingface.columns", "no column has named classes; name those that are attributes", list(features)
                )
        else:
            chosen = names_chosen(self.columns, "huggingface.columns", "column", features)
            if image in chosen:
                raise InputError("huggingface.columns", f"{image!r} is the column of images")
        attributes, codes = [], []
        for column in chosen:
            attribute, column_codes = _attribute(parts, column, name)
            attributes.append(attribute)
            codes.append(column_codes)
        if len(parts) > 1:
            if SPLIT in chosen:
                raise InputError(
                    "huggingface.columns", f"{SPLIT!r} is what the splits are called; choose one of them, or other columns"
                )
            attributes.append(Attribute(SPLIT, tuple(parts)))
            codes.append(np.repeat(np.arange(len(parts)), [len(part) for part in parts.values()]))
        return AttributeTable(tuple(attributes), np.stack(codes))


@contextlib.contextmanager
def _told(name: str) -> Iterator[None]:
    """`datasets` without bars of progress and log, and a `DataError` for whatever it raises about the data set called `name`."""
    try:
        import datasets
    except ImportError:
        raise DataError("source 'huggingface' needs the extra: pip install 'crosswind[huggingface]'") from None
    quiet, level = datasets.are_progress_bars_disabled(), datasets.logging.get_verbosity()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # it logs errors before it raises them
    try:
        yield
    except (CrosswindError, MemoryError):
        raise
    except Exception as error:  # it raises what the libraries below it raise, for files of many formats
        raise DataError(f"{name} cannot be read as a data set: {_said(error)}") from None
    finally:
        datasets.logging.set_verbosity(level)
        if not quiet:
            datasets.enable_progress_bars()


def _said(error: Exception) -> str:
    """The first sentence of an error of `datasets`, and of the one that caused it."""
    cause = error.__cause__
    text = str(error) if cause is None else f"{error} ({type(cause).__name__}: {cause})"
    return one_line(text, 300) or type(error).__name__


def _from_hub(name: str | None, config: str | None, revision: str | None) -> dict[str, Dataset]:
    import inspect

    import datasets

    assert name is not None
    if Path(name).expanduser().exists():
        raise InputError("huggingface.id", f"{name!r} is a file or folder here; local files are named by path")
    # Before version 4 the library could run code that came with a data set, and asked or looked at the environment whether to.
    barred = {"trust_remote_code": False} if "trust_remote_code" in inspect.signature(datasets.load_dataset).parameters else {}
    try:
        found = datasets.load_dataset(name, config, revision=revision, **barred)
    except OSError as error:
        raise DataError(
            f"the data set {name!r} of the hub cannot be had: an id needs the network; export it where there is one, and name the "
            f"path of the export ({_said(error)})"
        ) from None
    return dict(found)


def _from_files(place: Path, name: str) -> dict[str, Dataset]:
    import datasets

    if not place.exists():
        raise InputError("huggingface.path", f"there is no file or folder {name!r}")
    if place.is_dir() and any((place / file).is_file() for file in ("state.json", "dataset_dict.json")):
        found = datasets.load_from_disk(str(place))
    elif place.suffix == ".arrow":
        found = datasets.Dataset.from_file(str(place))
    elif place.suffix == ".parquet":
        found = datasets.load_dataset("parquet", data_files=str(place), split="train")
    elif place.is_dir():
        # The reader is named, never left to the library's guess: what a folder holds shall not choose a format with code in it.
        endings = {file.suffix.lower() for file in place.rglob("*") if not file.name.startswith(".")}
        kinds = [("parquet", (".parquet",)), ("arrow", (".arrow",)), ("imagefolder", IMAGE_ENDINGS)]
        kind = next((kind for kind, wanted in kinds if endings & set(wanted)), None)
        if kind is None:
            raise DataError(f"{name} holds no Parquet file, no Arrow file and no image, and was not written by save_to_disk")
        found = datasets.load_dataset(kind, data_dir=str(place))
    else:
        raise InputError("huggingface.path", f"{name!r} is no folder and no file of this kind", [".parquet", ".arrow"])
    return dict(found) if isinstance(found, datasets.DatasetDict) else {"all": found}


def _has_column(parts: Mapping[str, Dataset], column: object, setting: str) -> str:
    names = next(iter(parts.values())).column_names
    if not isinstance(column, str) or column not in names:
        raise unknown(f"huggingface.{setting}", "column", column, names)
    return column


def _kind(feature: Any) -> str:
    """`image`, `classes`, or the type of the cells in Arrow's word."""
    import datasets

    if isinstance(feature, datasets.Image):
        return "image"
    if isinstance(feature, datasets.ClassLabel):
        return "classes"
    word = str(getattr(feature, "dtype", type(feature).__name__))
    return "binary" if word in ("binary", "large_binary") else word


def _column(part: Dataset, name: str) -> Any:
    """A column as it lies in Arrow's memory, images not decoded."""
    return part.select_columns([name]).with_format("arrow")[:].column(name)


def _frame(parts: Mapping[str, Dataset], name: str) -> Any:
    """A column of all parts as a polars data frame."""
    import polars
    import pyarrow

    chunks = [chunk for part in parts.values() for chunk in _column(part, name).chunks]
    return polars.DataFrame({name: polars.from_arrow(pyarrow.chunked_array(chunks))})


def _attribute(parts: Mapping[str, Dataset], column: str, name: str) -> tuple[Attribute, NDArray[np.int64]]:
    feature = next(iter(parts.values())).features[column]
    if _kind(feature) != "classes":
        from crosswind.data.tabular import attribute_table

        table = attribute_table(_frame(parts, column), [column], name)
        return table.attributes[0], table.codes[0].astype(np.int64)
    codes = _frame(parts, column)[column]
    known = codes.is_between(0, len(feature.names) - 1).fill_null(False)
    if not known.all():
        row = int((~known).arg_max() or 0)
        value = "no class" if codes[row] is None else f"the number {codes[row]}, which is that of no class"
        raise DataError(f"{name}, column {column!r}, row {row + 1} has {value}; test rows are often published without: use splits")
    numbers = codes.to_numpy().astype(np.int64)
    present, again = np.unique(numbers, return_inverse=True)
    return Attribute(column, tuple(feature.names[code] for code in present)), again.astype(np.int64)


def _sizes(part: Dataset, image: str, name: str) -> NDArray[np.int64]:
    """Bytes of each image, int64 [n], without reading one; `DataError` for a row that has none."""
    import pyarrow
    from pyarrow import compute

    column = _column(part, image)
    is_struct = pyarrow.types.is_struct(column.type)
    held = compute.binary_length(compute.struct_field(column, "bytes") if is_struct else column)
    found = np.asarray(compute.fill_null(held, 0).to_numpy(), dtype=np.int64).copy()
    for row in np.flatnonzero(found == 0).tolist():
        place = column[row].as_py()["path"] if is_struct and column[row].is_valid else None
        if not place:
            raise DataError(f"{name}, row {row + 1} has no image")
        try:
            found[row] = Path(place).stat().st_size
        except (OSError, ValueError):
            raise DataError(
                f"{name}, row {row + 1}: its image is not held but lies elsewhere, and there is no file {place!r}"
            ) from None
    return found


def _images(parts: Mapping[str, Dataset], image: str, name: str) -> tuple[Callable[[int], Path | bytes], Callable[[int], str]]:
    """What gives the image of a row, and what errors call it."""
    arrow = [part.select_columns([image]).with_format("arrow") for part in parts.values()]
    starts = np.cumsum([0, *(len(part) for part in arrow)])
    names = list(parts)

    def place_of(row: int) -> tuple[int, int]:
        which = int(np.searchsorted(starts, row, side="right")) - 1
        return which, row - int(starts[which])

    def opened(row: int) -> Path | bytes:
        which, inside = place_of(row)
        cell = arrow[which][inside].column(image)[0].as_py()
        held = cell["bytes"] if isinstance(cell, dict) else cell
        if held:
            return bytes(held)
        if not isinstance(cell, dict) or not cell["path"]:
            raise Refused("has no image")
        return Path(cell["path"])

    def named(row: int) -> str:
        which, inside = place_of(row)
        return f"{name}, {names[which]}, row {inside + 1}: the image"

    return opened, named
