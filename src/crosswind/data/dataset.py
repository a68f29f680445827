"""A data set: rows with stable ids, an attribute table, and inputs that are read on demand.

Planning a study needs the table alone; nothing here reads inputs by itself or imports torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, unknown
from crosswind.core.types import KINDS_OF_INPUTS, InputColumn, InputSpec, digest
from crosswind.data.attributes import Attribute, AttributeTable, DerivedAttribute
from crosswind.data.contents import FileContents
from crosswind.data.spellings import UnitDoubts

Read = Callable[[NDArray[np.int64]], NDArray[Any]]
"""Gives the inputs of rows int64 [n], one each, in their order."""
Images = Callable[[NDArray[np.int64]], NDArray[np.uint8]]
"""Gives the images of rows int64 [n], uint8 [n, h, w, c]."""

SHOWN = 8
"""Attributes that a data set names where it is printed."""
_BY_ROW_NUMBER: NDArray[np.int64] = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class AttributedDataset:
    """Rows with ids, attribute values and inputs.

    `read(rows)` gives the inputs of base rows (int64 [m], each in [0, n)) as `input` says, such as
    uint8 [m, h, w, c] for images; both are None where there are none. `inputs` is what calls it.
    `ids`: int64 [n], distinct and stable under filtering; default: the row numbers. `units`: int64
    [n]; rows of one unit (a patient, a toy) never get different roles; None: every row is its own
    unit. `fingerprint` identifies table and inputs without reading the inputs.
    Two rows show one picture, and keep one role in a study, in each of three cases, whatever their
    size, colours or derived attribute. They have equal `originals` (uint64 [n], default: the ids)
    and one `origin` (the collection, default: the data set's name). They have equal `contents`
    (uint64 [n], hashes of the pixels, the texts or the numbers). Their files in `files` have equal
    bytes. `from_files`: images are decoded from files that may be damaged; a study reads all of
    them before it starts. `notes`: what a plan says of the rows, each with the attribute it is
    about, "" for all rows. `distinct`: the attributes whose values are known to be different ones,
    whatever they look like; None: all, since a program named them. `unit_doubts`: units that may be
    one. `input_columns`: the columns of a table that are the inputs, in their order; () where inputs
    are no columns. A derived attribute of V values gives n x V virtual rows: row b * V + v is base
    row b under value v. `cache` holds what later stages compute from this data set.

    Raises `DataError` for ids, units, originals or contents of the wrong shape or type and for
    repeated ids.
    """

    name: str
    table: AttributeTable
    read: Read | None = None
    input: InputSpec | None = None
    ids: NDArray[np.int64] = field(default_factory=lambda: _BY_ROW_NUMBER)
    units: NDArray[np.int64] | None = None
    fingerprint: str = ""
    derived: DerivedAttribute | None = None
    from_files: bool = False
    origin: str = ""
    originals: NDArray[np.uint64] | None = None
    contents: NDArray[np.uint64] | None = None
    files: FileContents | None = None
    distinct: frozenset[str] | None = None
    unit_doubts: UnitDoubts | None = None
    notes: tuple[tuple[str, str], ...] = ()
    input_columns: tuple[InputColumn, ...] = ()
    cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        n = self.table.n_rows
        if self.ids is _BY_ROW_NUMBER:
            ids = np.arange(n, dtype=np.int64)
        else:
            ids = np.asarray(self.ids, dtype=np.int64)
        if ids.shape != (n,):
            raise DataError(f"data set {self.name!r} has {n} rows and ids of shape {ids.shape}")
        if (
            not (np.diff(ids) > 0).all() and len(np.unique(ids)) < n
        ):  # the sort is needed only for ids out of order
            raise DataError(f"data set {self.name!r} gives one id to two rows")
        object.__setattr__(self, "ids", ids)
        if self.units is not None:
            object.__setattr__(self, "units", np.asarray(self.units, dtype=np.int64))
        for name, kind in (("units", np.int64), ("originals", np.uint64), ("contents", np.uint64)):
            array = getattr(self, name)
            if array is not None and (array.shape != (n,) or array.dtype != kind):
                wanted_form = f"{np.dtype(kind)} ({n},)"
                problem = (
                    f"data set {self.name!r} has {n} rows and {name} of {array.dtype}"
                    f" {array.shape}, not {wanted_form}"
                )
                raise DataError(problem)
        if not self.origin:
            object.__setattr__(self, "origin", self.name)
        if not self.fingerprint:
            table_digest = self.table.digest()
            identity = {"name": self.name, "table": table_digest, "image_shape": self.image_shape}
            fingerprint = digest(
                identity
                if self.input is None or self.image_shape is not None
                else {**identity, "input": vars(self.input)}
            )
            object.__setattr__(self, "fingerprint", fingerprint)

    def __repr__(self) -> str:
        named = [f"{axis.name} ({len(axis.values)} values)" for axis in self.schema[:SHOWN]]
        more = f" and {len(self.schema) - SHOWN} more" if len(self.schema) > SHOWN else ""
        inputs = "no inputs" if self.input is None else str(self.input)
        return f"{self.name}: {self.n_rows:,} rows of {inputs}; {', '.join(named)}{more}"

    @property
    def n_base(self) -> int:
        """The number of base rows: those of the table."""
        return self.table.n_rows

    @property
    def n_rows(self) -> int:
        """The number of rows, virtual ones counted: n, or n x V with a derived attribute of V
        values."""
        return self.n_base * self.n_derived

    @property
    def n_derived(self) -> int:
        """V, the number of values of the derived attribute; 1 where there is none."""
        if self.derived is None:
            return 1
        return len(self.derived.values)

    @property
    def schema(self) -> tuple[Attribute, ...]:
        """All attributes, the derived one last."""
        if self.derived is None:
            return self.table.attributes
        return (*self.table.attributes, self.derived.attribute)

    def attribute(self, name: str, field: str = "attribute") -> Attribute:
        """The attribute of a name; an unknown one is an `InputError` on `field` that names the
        nearest."""
        for attribute in self.schema:
            if attribute.name == name:
                return attribute
        raise self.no_attribute(name, field, f"attribute of {self.name}")

    def no_attribute(self, name: str, field: str, kind: str = "attribute") -> InputError:
        """The error for a name that no attribute has; a column that is an input alone is said to be
        one."""
        choices = [attribute.name for attribute in self.schema]
        if name in [column.name for column in self.input_columns]:
            problem = f"{name!r} is an input of {self.name} alone; name it in 'columns' too"
            return InputError(field, problem, choices)
        return unknown(field, kind, name, choices)

    def refuse_label_as_input(self, label: str, field: str = "label") -> None:
        """Refuse a label that a model would read, by an `InputError` on `field`: it would be right on
        every row and have learnt nothing."""
        if label in [column.name for column in self.input_columns]:
            problem = (
                f"{label!r} is an input of {self.name} too, so that a model would read the answer;"
                " leave it out of numbers and categories, and name it in 'columns'"
            )
            raise InputError(field, problem)

    def code_of(self, name: str, value: object, field: str = "") -> int:
        """The code of a value of a named attribute, see `Attribute.code_of`."""
        return self.attribute(name, field or "attribute").code_of(value, field)

    def row_ids(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """The stable ids of (virtual) rows: int64 of the shape of `rows`; distinct rows have
        distinct ids."""
        base, values = np.divmod(np.asarray(rows, dtype=np.int64), self.n_derived)
        ids: NDArray[np.int64] = self.ids[base] * self.n_derived + values
        return ids

    def row_units(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """The unit of (virtual) rows: int64 of the shape of `rows`; a derived row's unit is that of
        its base row."""
        base = np.asarray(rows, dtype=np.int64) // self.n_derived
        if self.units is None:
            return self.ids[base]
        return self.units[base]

    @property
    def image_shape(self) -> tuple[int, int, int] | None:
        """(h, w, c) where the inputs are images, else None."""
        if self.input is None or self.input.kind != "image":
            return None
        height, width, channels = self.input.shape
        return height, width, channels

    @property
    def shows(self) -> str:
        """The word for a row's input: text or picture."""
        if self.input is not None and self.input.kind == "text":
            return "text"
        return "picture"

    def check_inputs(self) -> InputSpec:
        """The input specification. Raises `DataError` where there are none."""
        if self.read is None or self.input is None:
            raise DataError(
                f"data set {self.name!r} has attributes but no inputs, so it can be planned but not"
                " trained on"
            )
        return self.input

    def inputs(self, rows: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """The inputs of base rows, see `InputSpec`; `DataError` where the data set has none or
        gives something else."""
        spec = self.check_inputs()
        row_numbers = np.asarray(rows, dtype=np.int64)
        assert self.read is not None
        if row_numbers.size and (
            int(row_numbers.min()) < 0 or int(row_numbers.max()) >= self.n_base
        ):
            problem = (
                f"data set {self.name!r} has rows 0 to {self.n_base - 1}, not"
                f" {int(row_numbers.min())} to {int(row_numbers.max())}"
            )
            raise DataError(problem)
        row_inputs = self.read(row_numbers)
        shape = (len(row_numbers), *spec.row_shape)
        if row_inputs.dtype != spec.dtype or row_inputs.shape != shape:
            raise DataError(
                f"data set {self.name!r} gave {KINDS_OF_INPUTS[spec.kind]} of {row_inputs.dtype}"
                f" {row_inputs.shape}, not {spec.dtype} {shape}"
            )
        return row_inputs

    def keep(
        self, values: Mapping[str, Sequence[object]], field: str = "keep"
    ) -> AttributedDataset:
        """The data set of the rows whose attributes have one of the given values; those values
        remain, in the given order.

        Ids, units and names of pictures stay those of the rows. Raises `InputError` for an unknown
        attribute or value, no values, a value named twice, and where no row is left.
        """
        table = self.table
        derived = self.derived
        attributes = list(table.attributes)
        codes = table.codes.astype(np.int32)
        spelling: dict[str, list[str]] = {}
        for name, wanted_values in values.items():
            path = f"{field}.{name}"
            attribute = self.attribute(name, path)
            if (
                isinstance(wanted_values, str)
                or not isinstance(wanted_values, Sequence)
                or not wanted_values
            ):
                raise InputError(
                    path, f"must be a list of values, not {wanted_values!r}", attribute.values
                )
            order = [attribute.code_of(value, path) for value in wanted_values]
            if len(set(order)) < len(order):
                raise InputError(path, f"a value is named twice in {list(wanted_values)!r}")
            spelling[name] = [attribute.values[code] for code in order]
            if derived is not None and name == derived.name:
                derived = derived.keep(order)
                continue
            i = table.names.index(name)
            new_codes = np.full(len(attribute), -1)
            new_codes[order] = np.arange(len(order))
            codes[i] = new_codes[codes[i]]
            attributes[i] = Attribute(name, tuple(spelling[name]))
        rows = np.flatnonzero((codes >= 0).all(axis=0))
        if not rows.size:
            problem = (
                f"no row of {self.name} has one of the values of every attribute named in"
                f" {dict(values)!r}"
            )
            raise InputError(field, problem)
        read = self.read
        return dataclasses.replace(
            self,
            table=AttributeTable(tuple(attributes), codes[:, rows]),
            read=None if read is None else lambda row_numbers: read(rows[row_numbers]),
            ids=self.ids[rows],
            units=None if self.units is None else self.units[rows],
            originals=None if self.originals is None else self.originals[rows],
            contents=None if self.contents is None else self.contents[rows],
            files=None if self.files is None else self.files.rows(rows),
            fingerprint=digest({"of": self.fingerprint, "keep": spelling}),
            derived=derived,
        )

    def with_attribute(
        self, name: str, values: Sequence[object], codes: NDArray[np.integer[Any]]
    ) -> AttributedDataset:
        """The data set with one more attribute, such as clusters: `codes` int [n] of base rows,
        each in [0, len(values))."""
        if name in [attribute.name for attribute in self.schema]:
            raise InputError(name, f"data set {self.name!r} already has an attribute of this name")
        added = Attribute(name, tuple(values))  # type: ignore[arg-type]
        column = np.asarray(codes)
        if column.shape != (self.n_base,) or not np.issubdtype(column.dtype, np.integer):
            problem = (
                f"attribute {name!r} needs {self.n_base} whole numbers, not {column.dtype}"
                f" {column.shape}"
            )
            raise DataError(problem)
        alone = AttributeTable((added,), column[None])
        attributes = (*self.table.attributes, added)
        table = AttributeTable(attributes, np.concatenate([self.table.codes, alone.codes]))
        fingerprint = digest({"of": self.fingerprint, "with": alone.digest()})
        return dataclasses.replace(self, table=table, fingerprint=fingerprint)

    def with_units(self, attribute: str, field: str = "unit") -> AttributedDataset:
        """The data set whose rows belong together by an attribute's value: one unit a value."""
        units = self.table.column(attribute, field).astype(np.int64)
        fingerprint = digest({"of": self.fingerprint, "units": attribute})
        return dataclasses.replace(self, units=units, fingerprint=fingerprint)

    def describe(self) -> dict[str, Any]:
        """Name, rows, attributes with value names and counts of rows, inputs and fingerprint, as
        plain values for JSON."""
        columns = []
        for attribute, codes in zip(self.table.attributes, self.table.codes, strict=True):
            columns.append(np.bincount(codes, minlength=len(attribute)))
        counts = [(column * self.n_derived).tolist() for column in columns]
        if self.derived is not None:
            counts.append([self.n_base] * self.n_derived)
        attributes = [
            {"name": attribute.name, "values": list(attribute.values), "counts": count}
            for attribute, count in zip(self.schema, counts, strict=True)
        ]
        n_units = None
        if self.units is not None:
            n_units = len(np.unique(self.units))
        image_shape = None if self.image_shape is None else list(self.image_shape)
        return {
            "name": self.name,
            "rows": self.n_rows,
            "attributes": attributes,
            "units": n_units,
            "image_shape": image_shape,
            "input": None if self.input is None else self.input.kind,
            "fingerprint": self.fingerprint,
        }
