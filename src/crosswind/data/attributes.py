"""Attributes with named values, the table of their codes for all rows, and attributes that a
transform derives.

A table holds small unsigned codes, one contiguous array for each attribute: 737,280 rows of 7
attributes take 5 MB.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError, InputError, unknown
from crosswind.core.knobs import resolve
from crosswind.core.registry import Facts, facts
from crosswind.core.types import digest_arrays
from crosswind.data.spellings import look_of
from crosswind.transforms.neighbourhood import ROOMS, transforms_of

MOST_ROWS = 50_000_000
"""Rows that a table has at most that is made or read whole."""
MOST_VALUES = 65_535
"""Values that an attribute has at most: codes of 16 bits keep a table of many rows small."""

_FEW = 5_000
"""Values of an attribute that are looked for by how they look, too."""
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def spelled(value: object) -> str:
    """The name that `value` has as an attribute value: `true`, `3`, `0.5`, or its text."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return str(value)  # a float32 by its own shortest text, not by that of the double nearest to it


@dataclass(frozen=True)
class Attribute:
    """One attribute of the rows: its `name` and the names of its `values`, code 0 first.

    Raises `InputError` for an empty name, no values, a value named twice, and more than 65,535
    values.
    """

    name: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InputError("attribute", f"an attribute needs a name, not {self.name!r}")
        object.__setattr__(self, "values", tuple(spelled(value) for value in self.values))
        if not self.values:
            raise InputError(self.name, "an attribute needs at least one value")
        if len(self.values) > MOST_VALUES:
            problem = f"an attribute has at most {MOST_VALUES:,} values, not {len(self.values):,}"
            raise InputError(self.name, problem)
        if len(self._by_text) < len(self.values):
            twice = next(value for i, value in enumerate(self.values) if value in self.values[:i])
            raise InputError(self.name, f"the value {twice!r} is named twice")

    def __len__(self) -> int:
        return len(self.values)

    def code_of(self, value: object, field: str = "") -> int:
        """The code of a value by its name, in [0, len).

        Numbers and their texts are the same value: 0.8, "0.8" and "0.80", or 1 and "1.0". So are
        `True` and a value named true, yes, on or 1 (YAML reads a bare `yes` as true), and texts
        that differ in nothing that is seen (`spellings.clean`). An unknown value is an `InputError`
        on `field` that names the values.
        """
        if not isinstance(value, bool | np.bool_):
            code = self._by_text.get(spelled(value))
            if code is None:
                number = _number(value)
                code = None if number is None else self._by_number.get(number)
            if code is None:
                code = self._by_look.get(look_of(spelled(value)))
            if code is not None:
                return code
        else:
            meant = []
            for word in _TRUE if value else _FALSE:
                if word in self._by_folded:
                    meant.append(self._by_folded[word])
            if len(set(meant)) == 1:
                return meant[0]
        raise unknown(
            field or self.name, f"value of attribute {self.name!r}", spelled(value), self.values
        )

    @cached_property
    def _by_text(self) -> dict[str, int]:
        return {value: code for code, value in enumerate(self.values)}

    @cached_property
    def _by_look(self) -> dict[str, int]:
        looks = [look_of(value) for value in self.values]
        if len(looks) <= _FEW:
            return {look: code for code, look in enumerate(looks) if looks.count(look) == 1}
        return {}

    @cached_property
    def _by_folded(self) -> dict[str, int]:
        return {value.casefold(): code for code, value in enumerate(self.values)}

    @cached_property
    def _by_number(self) -> dict[float, int]:
        numbers = [_number(value) for value in self.values]
        # Where two names are the same number ("7" and "007") neither is meant by the number: only
        # the text tells them apart.
        counts = Counter(numbers)
        return {
            number: code
            for code, number in enumerate(numbers)
            if number is not None and counts[number] == 1
        }


@dataclass(frozen=True, eq=False)
class AttributeTable:
    """The value of every attribute for every row.

    `attributes`: distinct names. `codes`: unsigned [k, n], `codes[i, r]` the code of row r's value
    of attribute i; any integer dtype is taken and made the smallest unsigned one, each row
    contiguous, not writeable. Raises `DataError` for codes outside an attribute's values and for
    shapes that do not fit.
    """

    attributes: tuple[Attribute, ...]
    codes: NDArray[np.integer[Any]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        names = [attribute.name for attribute in self.attributes]
        if twice := [name for i, name in enumerate(names) if name in names[:i]]:
            raise DataError(f"two attributes have the name {twice[0]!r}")
        codes = np.asarray(self.codes)
        if (
            codes.ndim != 2
            or len(codes) != len(names)
            or not np.issubdtype(codes.dtype, np.integer)
        ):
            raise DataError(
                f"codes must be integers of shape ({len(names)}, rows), not {codes.dtype}"
                f" {codes.shape}"
            )
        for attribute, column in zip(self.attributes, codes, strict=True):
            if column.size and (int(column.max()) >= len(attribute) or int(column.min()) < 0):
                row = int(np.flatnonzero((column >= len(attribute)) | (column < 0))[0])
                problem = (
                    f"row {row} has code {int(column[row])} of attribute {attribute.name!r}, which"
                    f" has {len(attribute)} values"
                )
                raise DataError(problem)
        most_values = max((len(attribute) for attribute in self.attributes), default=1)
        codes = np.ascontiguousarray(codes, dtype=np.min_scalar_type(most_values - 1)).view()
        codes.flags.writeable = (
            False  # the digest and the indices of cells made from the table are kept
        )
        object.__setattr__(self, "codes", codes)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.codes.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    def attribute(self, name: str, field: str = "attribute") -> Attribute:
        """The attribute of a name; an unknown one is an `InputError` on `field` that names the
        nearest."""
        return self.attributes[self._index(name, field)]

    def column(self, name: str, field: str = "attribute") -> NDArray[np.integer[Any]]:
        """The codes of one attribute: unsigned [n], not writeable."""
        column: NDArray[np.integer[Any]] = self.codes[self._index(name, field)]
        return column

    def rows(self, rows: NDArray[np.integer[Any]] | NDArray[np.bool_]) -> AttributeTable:
        """The table of some of its rows, by number or by mask."""
        return AttributeTable(self.attributes, self.codes[:, rows])

    def digest(self) -> str:
        """32 hexadecimal digits that depend on every name and code."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        words = "\x1e".join(
            "\x1f".join((attribute.name, *attribute.values)) for attribute in self.attributes
        )
        names = np.frombuffer(words.encode(), dtype=np.uint8)
        arrays = {"codes": self.codes, "names": names}
        return digest_arrays(arrays)

    def _index(self, name: str, field: str) -> int:
        for i, attribute in enumerate(self.attributes):
            if attribute.name == name:
                return i
        raise unknown(field, "attribute", name, self.names)


MODES = ("fixed", "per-visit")
"""When the value of a training row is drawn: once, or each time that the row is seen."""
Settings = Mapping[str, Any] | tuple[Mapping[str, Any], ...] | None
"""Of a value of a derived attribute: knobs of its transform; several `{transform, knobs}` of which
each row draws one; or None."""


def transform_facts(name: str, field: str = "transform") -> Facts:
    """The facts of a transform of images (room `transforms`), of texts (`text-transforms`) or of
    vectors (`vector-transforms`); `InputError` for an unknown name."""
    for kind in ("text", "features"):
        if name in transforms_of(kind):
            return facts(ROOMS[kind], name, field)
    return facts(ROOMS["image"], name, field)


@dataclass(frozen=True)
class DerivedAttribute:
    """An attribute whose values are made by transforms of the image, or of the text.

    `name`: of the attribute. `values`: names of the values. `transform`: a registered transform; ""
    where every value names its own. `settings`: one entry a value in the order of `values` (or a mapping from value to
    entry). An entry has the transform's knobs, among which `transform` names another one; or it is
    None where the value stays untouched. Of several each row draws one, all as likely. The choices
    are the values of a knob (or of `transform`) that are given as a list, each with each, or those
    of a list of entries. `mode`: `fixed`, the value of a training row is drawn once; `per-visit`,
    it is drawn again each time that the row is seen. Raises `InputError` for an unknown transform,
    knob or mode, for values without settings, and where two are the same.
    """

    name: str
    values: tuple[str, ...]
    transform: str
    settings: tuple[Settings, ...]
    mode: str = "fixed"

    def __post_init__(self) -> None:
        names = Attribute(self.name, self.values).values
        object.__setattr__(self, "values", names)
        if self.mode not in MODES:
            raise unknown(f"{self.name}.mode", "mode", self.mode, MODES)
        settings: Any = self.settings
        if isinstance(settings, Mapping):
            by_name = {spelled(value): entry for value, entry in settings.items()}
            if strange := [value for value in by_name if value not in names]:
                raise unknown(f"{self.name}.settings", "value", strange[0], names)
            if missing := [value for value in names if value not in by_name]:
                field = f"{self.name}.settings"
                raise InputError(
                    field, f"value {missing[0]!r} has no settings (null leaves the image untouched)"
                )
            settings = [by_name[value] for value in names]
        if (
            isinstance(settings, str)
            or not isinstance(settings, Sequence)
            or len(settings) != len(names)
        ):
            problem = f"needs one entry for each of {len(names)} values, not {settings!r}"
            raise InputError(f"{self.name}.settings", problem)
        if self.transform:
            transform_facts(self.transform, f"{self.name}.transform")
        checked = []
        for value, entry in zip(names, settings, strict=True):
            checked.append(self._checked(entry, f"{self.name}.settings.{value}"))
        object.__setattr__(self, "settings", tuple(checked))

    def _checked(self, entries: Any, path: str) -> Settings:
        if entries is None:
            return None
        if isinstance(entries, list | tuple):
            listed = list(entries)
        else:
            listed = [entries]
        settings_found: list[Mapping[str, Any]] = []
        for position, entry in enumerate(listed):
            if len(listed) == 1:
                entry_path = path
            else:
                entry_path = f"{path}.{position}"
            if not isinstance(entry, Mapping):
                problem = (
                    f"must be settings of {self.transform or 'a transform'} or null, not {entry!r}"
                )
                raise InputError(entry_path, problem)
            settings_found += self._each(entry, entry_path)
        if not settings_found or any(
            single in settings_found[:position] for position, single in enumerate(settings_found)
        ):
            raise InputError(
                path,
                (
                    "names the same settings twice"
                    if settings_found
                    else "has no settings (null leaves the image untouched)"
                ),
            )
        if len(settings_found) == 1 and settings_found[0]["transform"] == self.transform:
            return {key: value for key, value in settings_found[0].items() if key != "transform"}
        return tuple(settings_found)

    def _each(self, entry: Mapping[str, Any], path: str) -> Iterator[Mapping[str, Any]]:
        """The settings that one entry stands for: every combination of the values that are given as
        lists."""
        knob_settings = {key: value for key, value in entry.items() if key != "transform"}
        names = entry.get("transform", self.transform)
        for name in names if isinstance(names, list) else [names]:
            if not name:
                raise InputError(
                    f"{path}.transform",
                    "names no transform, and the attribute has none for all its values",
                )
            transform_known = transform_facts(name, f"{path}.transform")
            list_knobs = {knob.name for knob in transform_known.knobs if "list" in knob.annotation}
            choices = []
            for key, value in knob_settings.items():
                choices.append(
                    value if isinstance(value, list) and key not in list_knobs else [value]
                )
            for chosen in product(*choices):
                knobs = resolve(
                    transform_known.knobs,
                    dict(zip(knob_settings, chosen, strict=True)),
                    path,
                    f"transform {name!r}",
                )
                yield {"transform": name, **knobs}

    @cached_property
    def options(self) -> tuple[tuple[tuple[str, Mapping[str, Any]] | None, ...], ...]:
        """The choices of a row under each value, a transform's name and knobs or None; a single one
        where there is no choice."""
        return tuple(
            (
                (None,)
                if entry is None
                else (
                    ((self.transform, entry),)
                    if isinstance(entry, Mapping)
                    else tuple(
                        (
                            settings["transform"],
                            {key: value for key, value in settings.items() if key != "transform"},
                        )
                        for settings in entry
                    )
                )
            )
            for entry in self.settings
        )

    @cached_property
    def transforms(self) -> tuple[str, ...]:
        """The names of the transforms that some value takes, each once."""
        return tuple(
            dict.fromkeys(
                option[0] for value_options in self.options for option in value_options if option
            )
        )

    @cached_property
    def attribute(self) -> Attribute:
        """The attribute as any other."""
        return Attribute(self.name, self.values)

    def keep(self, codes: Sequence[int]) -> DerivedAttribute:
        """The derived attribute with only some of its values, in the order of `codes`."""
        settings = tuple(self.settings[code] for code in codes)
        values = tuple(self.values[code] for code in codes)
        return dataclasses.replace(self, values=values, settings=settings)

    def describe(self) -> dict[str, Any]:
        """The derived attribute as plain values for JSON."""
        version = transform_facts(self.transform).version if self.transform else 0
        return {
            "name": self.name,
            "transform": self.transform,
            "version": version,
            "values": {
                value: _told(entry) for value, entry in zip(self.values, self.settings, strict=True)
            },
            "mode": self.mode,
        }


def _told(entry: Settings) -> Any:
    if entry is None or isinstance(entry, Mapping):
        return None if entry is None else dict(entry)
    return [
        {**settings, "version": transform_facts(settings["transform"]).version}
        for settings in entry
    ]


def _number(value: object) -> float | None:
    if not isinstance(value, str | int | float | np.integer | np.floating):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
