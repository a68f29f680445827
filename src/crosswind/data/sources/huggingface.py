"""Any data set of images or texts of the library `datasets`: one that it fetches by its id, or
files that were exported."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import card_of
from crosswind.core.errors import CrosswindError, DataError, InputError, one_line, unknown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import InputSpec, digest, digest_arrays
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.decoding import IMAGE_ENDINGS, Refused
from crosswind.data.sources.base import PreparedSource, Reading, from_files, names_chosen
from crosswind.data.sources.packed_texts import contents_of, joined
from crosswind.data.spellings import as_values
from crosswind.data.tabular import Notes, attribute_table, unit_codes

if TYPE_CHECKING:
    from datasets import Dataset


@register("huggingface", kind="source")
@dataclass(frozen=True)
class HuggingFace(PreparedSource):
    """A data set of the library `datasets` (extra `huggingface`): by `id`, as its hub has it, or by
    `path`, from local files.

    `path` is a folder that `save_to_disk` wrote, a Parquet or Arrow file, or a folder of Parquet
    files, of Arrow files or of images (`imagefolder`, with its metadata). An `id` is fetched by
    `datasets` into its own cache, which needs the network; `revision` pins what it is. Code that
    comes with a data set is never run.
    `image` names the column of images, which may be left out where there is one alone. `text` one
    of texts instead, or the columns of a text's parts, whose rows may not be blank. Attributes are
    the columns with named classes and those of true and false, or `columns`: their values have the
    names of the classes, or the texts of the cells. Those that no row has are left out. Of several
    `splits` (all by default) the rows follow each other, and `split` is an attribute. Images are
    turned as their EXIF data say, made RGB (transparency is dropped), and resized to `size` x
    `size` without keeping their proportions. The fingerprint counts the bytes of each image and
    does not read them.
    Reference: Q. Lhoest et al., Datasets: A Community Library for Natural Language Processing,
    EMNLP 2021.
    """

    id: str | None = knob(
        None, doc="the data set's name on the hub, such as OWNER/NAME; needs the network"
    )
    path: str | None = knob(
        None, doc="local files instead: save_to_disk, Parquet, Arrow, or a folder of images"
    )
    config: str | None = knob(None, doc="which configuration of the id")
    revision: str | None = knob(None, doc="commit or tag of the id; the newest by default")
    splits: list[str] | None = knob(None, doc="which splits, in order; all by default")
    image: str | None = knob(None, doc="the column of images; the only one by default")
    text: str | list[str] | None = knob(
        None, doc="the column of texts, or columns of a text's parts, instead of images"
    )
    columns: list[str] | None = knob(
        None, doc="columns that are attributes; those of named classes and of booleans by default"
    )
    unit: str | None = knob(None, doc="column whose equal values belong together")
    size: int = knob(64, domain="[4, 2048]", doc="side of the pictures in pixels")

    own = ("path",)
    extra = "huggingface"
    card = card_of("huggingface")

    def read(self, folder: Path) -> Reading:
        """The chosen splits. Raises `InputError` for settings, `DataError` for what cannot be had
        or read."""
        name = self._checked_name()
        with _quiet(name):
            import datasets

            splits = self._parts(name)
            lengths = {label: len(split) for label, split in splits.items()}
            all_rows = datasets.concatenate_datasets(list(splits.values()))
            text_columns = [self.text] if isinstance(self.text, str) else self.text
            image = ""
            if text_columns is None:
                all_rows, image = self._images(all_rows)
            else:
                known_columns = all_rows.features
                text_columns = names_chosen(
                    text_columns, "huggingface.text", "column", known_columns
                )
            table, notes = self._table(all_rows, lengths, text_columns or [image], name)
            units, options = self._units(all_rows, notes, name)
            if text_columns is not None:
                dataset = _of_texts(all_rows, text_columns, table, units, name)
                return Reading(replace(dataset, **options), lengths)
            rows = all_rows.select_columns([image]).with_format("arrow")
            opened = _opener(rows, image)
            named = _namer(name, lengths)
            sizes = _sizes(rows[:].column(image), opened, named)
        location = (
            Path(name).expanduser().resolve()
            if self.path is not None
            else (name, self.config, self.revision)
        )
        units_digest = None if units is None else digest_arrays({"units": units})
        identity = {
            "source": "huggingface",
            "bytes": digest_arrays({"bytes": sizes}),
            "units": units_digest,
        }
        short_name = name.rstrip("/").rpartition("/")[2] or "huggingface"
        origin = f"huggingface {location} {list(lengths)}"
        dataset = from_files(
            short_name,
            table,
            opened,
            named,
            self.size,
            sizes,
            told=identity,
            units=units,
            origin=origin,
            **options,
        )
        return Reading(dataset, lengths)

    def _checked_name(self) -> str:
        """The id of the data set or the path of its files. Raises `InputError` for settings that
        name none or two, or do not go together."""
        name = self.id if self.path is None else self.path
        if self.text is not None and self.image is not None:
            raise InputError("huggingface.text", "is given instead of 'image', and both are")
        if name is None or (self.id is not None and self.path is not None):
            problem = "give either the id of a data set of the hub or the path of local files"
            raise InputError("huggingface.id", problem)
        if self.path is not None and (self.config, self.revision) != (None, None):
            problem = "names local files, and 'config' and 'revision' are of a data set of the hub"
            raise InputError("huggingface.path", problem)
        return name

    def _units(
        self, all_rows: Dataset, notes: Notes, name: str
    ) -> tuple[NDArray[np.int64] | None, dict[str, Any]]:
        """The unit of each row, None without a column of them, and what a data set is told of
        doubts."""
        options: dict[str, Any] = {"distinct": frozenset(), "notes": notes}
        if self.unit is None:
            return None, options
        column = _column_named(self.unit, "unit", all_rows)
        rows = _frame(all_rows, column)
        units, doubts, unit_notes = unit_codes(rows, column, name)
        options |= {"unit_doubts": doubts, "notes": (*unit_notes, *notes)}
        return units, options

    def _parts(self, name: str) -> dict[str, Dataset]:
        """The chosen splits by name; `all` where there are none."""
        if self.path is None:
            splits_found = _from_hub(name, self.config, self.revision)
        else:
            splits_found = _from_files(name)
        if self.splits is None:
            chosen = list(splits_found)
        else:
            chosen = names_chosen(self.splits, "huggingface.splits", "split", splits_found)
        for split in chosen:
            if splits_found[split].features != splits_found[chosen[0]].features or not len(
                splits_found[split]
            ):
                problem = (
                    f"{name}: the split {split!r} has no rows, or other columns than {chosen[0]!r};"
                    " choose among them with splits"
                )
                raise DataError(problem)
        return {split: splits_found[split] for split in chosen}

    def _images(self, all_rows: Dataset) -> tuple[Dataset, str]:
        """The rows with their column of images undecoded, as bytes and path, and its name."""
        import datasets

        images = [
            column
            for column, feature in all_rows.features.items()
            if isinstance(feature, datasets.Image)
        ]
        if self.image is None and len(images) != 1:
            problem = f"name one: there are {len(images)} columns of images"
            raise InputError("huggingface.image", problem, images or all_rows.column_names)
        if self.image is None:
            column = images[0]
        else:
            column = _column_named(self.image, "image", all_rows)
        if column not in images and getattr(all_rows.features[column], "dtype", "") not in (
            "binary",
            "large_binary",
        ):
            raise InputError("huggingface.image", f"the column {column!r} holds no images", images)
        return all_rows.cast_column(column, datasets.Image(decode=False)), column

    def _table(
        self, all_rows: Dataset, lengths: dict[str, int], inputs: list[str], name: str
    ) -> tuple[AttributeTable, Notes]:
        import datasets

        chosen = [
            column
            for column, feature in all_rows.features.items()
            if column != self.unit
            and (
                isinstance(feature, datasets.ClassLabel) or getattr(feature, "dtype", "") == "bool"
            )
        ]
        if self.columns is not None:
            chosen = names_chosen(self.columns, "huggingface.columns", "column", all_rows.features)
        if not chosen or set(inputs) & set(chosen) or (len(lengths) > 1 and "split" in chosen):
            problem = (
                "name columns of attributes: at least one, none of images or texts, and none called"
                " 'split' beside several splits"
            )
            raise InputError("huggingface.columns", problem, list(all_rows.features))
        coded_columns = [_attribute(all_rows, column, name) for column in chosen]
        if len(lengths) > 1:
            split_codes = np.repeat(np.arange(len(lengths)), list(lengths.values()))
            coded_columns.append((Attribute("split", tuple(lengths)), split_codes, ()))
        attributes = tuple(attribute for attribute, _, _ in coded_columns)
        table = AttributeTable(attributes, np.stack([codes for _, codes, _ in coded_columns]))
        return table, tuple(note for _, _, notes in coded_columns for note in notes)


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    """`datasets` without bars of progress and log, and a `DataError` for whatever it raises about
    the data set called `name`."""
    try:
        import datasets
    except ImportError:
        raise DataError(
            "source 'huggingface' needs the extra: pip install 'crosswind[huggingface]'"
        ) from None
    quiet = datasets.are_progress_bars_disabled()
    level = datasets.logging.get_verbosity()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(
        datasets.logging.CRITICAL
    )  # it logs errors before it raises them
    try:
        yield
    except (CrosswindError, MemoryError):
        raise
    except (
        Exception
    ) as error:  # it raises what the libraries below it raise, for files of many formats
        raise DataError(f"{name} cannot be read as a data set: {_said(error)}") from None
    finally:
        datasets.logging.set_verbosity(level)
        if not quiet:
            datasets.enable_progress_bars()


def _said(error: Exception) -> str:
    """The first sentence of an error of `datasets`, and of the one that caused it."""
    cause = error.__cause__
    if cause is None:
        text = str(error)
    else:
        text = f"{error} ({type(cause).__name__}: {cause})"
    return one_line(text, 300) or type(error).__name__


def _from_hub(name: str, config: str | None, revision: str | None) -> dict[str, Dataset]:
    import datasets

    if Path(name).expanduser().exists():
        raise InputError(
            "huggingface.id", f"{name!r} is a file or folder here; local files are named by path"
        )
    # Before version 4 the library could run code that came with a data set, and asked or looked at
    # the environment whether to.
    if "trust_remote_code" in inspect.signature(datasets.load_dataset).parameters:
        barred = {"trust_remote_code": False}
    else:
        barred = {}
    try:
        return dict(datasets.load_dataset(name, config, revision=revision, **barred))
    except OSError as error:
        raise DataError(
            f"the data set {name!r} of the hub cannot be had: an id needs the network; export it"
            f" where there is one, and name the path of the export ({_said(error)})"
        ) from None


def _from_files(name: str) -> dict[str, Dataset]:
    import datasets

    location = Path(name).expanduser()
    if not location.is_dir() and (
        not location.is_file() or location.suffix not in (".parquet", ".arrow")
    ):
        raise InputError(
            "huggingface.path",
            f"{name!r} is no folder and no file of this kind",
            [".parquet", ".arrow"],
        )
    if location.is_dir() and any(
        (location / file).is_file() for file in ("state.json", "dataset_dict.json")
    ):
        split = datasets.load_from_disk(str(location))
    elif location.suffix == ".arrow" and location.is_file():
        split = datasets.Dataset.from_file(str(location))
    elif location.is_file():
        split = datasets.load_dataset("parquet", data_files=str(location), split="train")
    else:
        # The reader is named, never left to the library's guess: what a folder holds shall not
        # choose a format with code in it.
        endings = {
            file.suffix.lower() for file in location.rglob("*") if not file.name.startswith(".")
        }
        kinds = {"parquet": (".parquet",), "arrow": (".arrow",), "imagefolder": IMAGE_ENDINGS}
        kind = next(
            (kind for kind, file_endings in kinds.items() if endings & set(file_endings)), None
        )
        if kind is None:
            raise DataError(
                f"{name} holds no Parquet file, no Arrow file and no image, and was not written by"
                " save_to_disk"
            )
        split = datasets.load_dataset(kind, data_dir=str(location))
    if isinstance(split, datasets.DatasetDict):
        return dict(split)
    return {"all": split}


def _opener(rows: Dataset, image: str) -> Callable[[int], Path | bytes]:
    """From the number of a row to the file of its image, or the bytes."""

    def opened(row: int) -> Path | bytes:
        cell = rows[row].column(image)[0].as_py() or {}
        if not cell.get("bytes") and not cell.get("path"):
            raise Refused("is missing")
        if cell["bytes"]:
            return bytes(cell["bytes"])
        return Path(cell["path"])

    return opened


def _namer(name: str, lengths: Mapping[str, int]) -> Callable[[int], str]:
    """From the number of a row to what its image is called in sentences. `lengths`: rows of each
    split, in order."""
    labels = list(lengths)
    starts = np.cumsum([0, *lengths.values()])

    def named(row: int) -> str:
        split_number = int(np.searchsorted(starts, row, side="right")) - 1
        row_of_split = row - int(starts[split_number]) + 1
        return f"{name}, {labels[split_number]}, row {row_of_split}: the image"

    return named


def _column_named(column: str, setting: str, all_rows: Dataset) -> str:
    if column not in all_rows.column_names:
        raise unknown(f"huggingface.{setting}", "column", column, all_rows.column_names)
    return column


def _frame(all_rows: Dataset, column: str) -> Any:
    """A column as a polars data frame."""
    import polars

    return polars.DataFrame(
        {
            column: polars.from_arrow(
                all_rows.select_columns([column]).with_format("arrow")[:].column(column)
            )
        }
    )


def _attribute(
    all_rows: Dataset, column: str, name: str
) -> tuple[Attribute, NDArray[np.int64], Notes]:
    import datasets

    feature = all_rows.features[column]
    frame = _frame(all_rows, column)
    if not isinstance(feature, datasets.ClassLabel):
        table, notes = attribute_table(frame, [column], name)
        return table.attributes[0], table.codes[0].astype(np.int64), notes
    codes = frame[column].fill_null(-1).to_numpy()
    wrong = np.flatnonzero((codes < 0) | (codes >= len(feature.names)))
    if wrong.size:
        problem = (
            f"{name}, column {column!r}, row {wrong[0] + 1} has no class (number"
            f" {codes[wrong[0]]}); test rows are often published without: use splits"
        )
        raise DataError(problem)
    present, again = np.unique(codes, return_inverse=True)
    names = [feature.names[code] for code in present]
    values, one_of, value_notes = as_values(column, names)
    return Attribute(column, values), one_of[again], value_notes


def _of_texts(
    all_rows: Dataset,
    columns: list[str],
    table: AttributeTable,
    units: NDArray[np.int64] | None,
    name: str,
) -> AttributedDataset:
    """The data set of the texts of some columns. Raises `InputError` for columns of something else,
    `DataError` for a blank."""
    frames = [_frame(all_rows, column).get_column(column) for column in columns]
    for column, cells in zip(columns, frames, strict=True):
        if getattr(all_rows.features[column], "dtype", "") not in ("string", "large_string"):
            raise InputError("huggingface.text", f"the column {column!r} holds no texts")
        blank = (cells.is_null() | (cells.str.strip_chars() == "")).arg_true()
        if len(blank):
            problem = (
                f"{name}, column {column!r}, row {blank[0] + 1} has no text; choose other rows with"
                " splits"
            )
            raise DataError(problem)
    joined_texts = np.empty(len(all_rows), dtype=object)
    joined_texts[:] = [joined(row) for row in zip(*frames, strict=True)]
    contents = contents_of(joined_texts)
    units_digest = None if units is None else digest_arrays({"units": units})
    identity = {"table": table.digest(), "units": units_digest}
    fingerprint = digest(
        {"source": "huggingface", **identity, "texts": digest_arrays({"contents": contents})}
    )
    short_name = name.rstrip("/").rpartition("/")[2] or "huggingface"
    return AttributedDataset(
        short_name,
        table,
        joined_texts.__getitem__,
        InputSpec.text(),
        units=units,
        contents=contents,
        fingerprint=fingerprint,
    )


def _sizes(
    column: Any, opened: Callable[[int], Path | bytes], named: Callable[[int], str]
) -> NDArray[np.int64]:
    """Bytes of each image, int64 [n], without reading one; `DataError` for a row that has none."""
    from pyarrow import compute

    held_bytes = compute.fill_null(compute.binary_length(compute.struct_field(column, "bytes")), 0)
    sizes = np.asarray(held_bytes.to_numpy(), dtype=np.int64).copy()
    for row in np.flatnonzero(sizes == 0).tolist():
        try:
            sizes[row] = Path(str(opened(row))).stat().st_size
        except Refused as error:
            raise DataError(f"{named(row)} {error}") from None
        except (OSError, ValueError):
            problem = (
                f"{named(row)} is not held but lies elsewhere, and there is no file"
                f" {str(opened(row))!r}"
            )
            raise DataError(problem) from None
    return sizes
