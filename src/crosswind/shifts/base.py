"""The shift algebra: cells, weights on cells, supplements, and how a shift is written.

A shift never sees rows, pixels or methods: it turns the cells of a study into a `NormalForm`. What
rows follow from it is the work of `crosswind.shifts.split`.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, share_hint, shown, unknown
from crosswind.core.knobs import resolve
from crosswind.core.registry import facts, load
from crosswind.data.attributes import Attribute

if TYPE_CHECKING:
    from crosswind.data.dataset import AttributedDataset

__all__ = [
    "All",
    "Cells",
    "NormalForm",
    "Shift",
    "Supplement",
    "code_of",
    "codes_of",
    "exact",
    "frozen",
    "parse_shift",
    "plain_number",
]


@dataclass(frozen=True)
class Cells:
    """The cells of a study: every combination of the classes of `label` and the values of
    `attributes`.

    Arrays over cells have the shape (classes, values of attribute 1, values of attribute 2, ...).
    Raises `InputError` where an attribute is named twice or is the label.
    """

    label: Attribute
    attributes: tuple[Attribute, ...] = ()

    def __post_init__(self) -> None:
        names = self.names
        for number, name in enumerate(names):
            if name in names[:number]:
                fault = "the label is also" if name == self.label.name else "is named twice as"
                raise InputError("attributes", f"{name!r}: {fault} an attribute of the cells")

    @cached_property
    def axes(self) -> tuple[Attribute, ...]:
        """The label, then the attributes: one axis of the cells each."""
        return (self.label, *self.attributes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the label and the attributes."""
        return tuple(attribute.name for attribute in self.axes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of classes, then of values of each attribute."""
        return tuple(len(attribute.values) for attribute in self.axes)

    @property
    def size(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)

    def axis(self, name: str, field: str) -> int:
        """The axis of an attribute or of the label; an unknown name is an `InputError` on
        `field`."""
        if name not in self.names:
            raise unknown(field, "attribute of the study", name, self.names)
        return self.names.index(name)

    def along(self, axes: Sequence[int], values: NDArray[Any]) -> NDArray[Any]:
        """`values`, one axis for each of `axes` in rising order, in the shape that broadcasts over
        the cells."""
        shape = [1] * len(self.shape)
        for position, axis in enumerate(axes):
            shape[axis] = values.shape[position]
        return values.reshape(shape)

    def name_of(self, cell: int) -> str:
        """The name of one cell by its number in C order: "shape=square, ink=red"."""
        codes = np.unravel_index(cell, self.shape)
        return ", ".join(
            f"{axis.name}={axis.values[int(code)]}"
            for axis, code in zip(self.axes, codes, strict=True)
        )

    @cached_property
    def cell_names(self) -> tuple[str, ...]:
        """The names of all cells in C order."""
        names = [""]
        for position, axis in enumerate(self.axes):
            words = [f"{', ' if position else ''}{axis.name}={value}" for value in axis.values]
            names = [name + word for name in names for word in words]
        return tuple(names)


@dataclass(frozen=True, eq=False)
class Supplement:
    """Rows drawn on top of those that the weights give.

    `region` bool over the cells they may come from; their number is `count`, or `share` of the rows
    drawn by weights, rounded up. `over`: each remaining row of the region is as likely ("rows"), or
    each cell gives as many ("cells"). Two supplements are equal when all of these are. `content`
    says in words what the rows are, and `effect` what follows where there are none of them.
    """

    region: NDArray[np.bool_]
    count: int | None = None
    share: Fraction | None = None
    over: str = "rows"
    content: str = "rows of a supplement"
    effect: str = ""

    def within(self, allowed: NDArray[np.bool_]) -> Supplement:
        """The supplement with its region cut to `allowed`."""
        return dataclasses.replace(self, region=self.region & allowed)

    def asked(self, drawn: int) -> int:
        """The number of rows, where `drawn` rows came by weights."""
        if self.count is not None:
            return self.count
        return math.ceil((self.share or 0) * drawn)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """The key that two equal supplements share, and by which they are ordered."""
        share = None
        if self.share is not None:
            share = (self.share.numerator, self.share.denominator)
        return (repr(self.count), repr(share), self.over, self.region.shape, self.region.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Supplement) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _broadcasts(shape: tuple[int, ...], cells: tuple[int, ...]) -> bool:
    """Whether an array of a shape is stretched to the cells, and no further."""
    try:
        return np.broadcast_shapes(shape, cells) == cells
    except ValueError:
        return False


@dataclass(frozen=True, eq=False)
class NormalForm:
    """Weights on cells, and `supplements` drawn on top: all that a shift is.

    `factors`: float64 arrays >= 0 that broadcast to `shape`; the weights are their product. They
    are kept apart and multiplied in one fixed order, because floating-point products depend on the
    order and `&` must not. Two normal forms are equal when their weights and supplements are.
    """

    shape: tuple[int, ...]
    factors: tuple[NDArray[np.float64], ...] = ()
    supplements: tuple[Supplement, ...] = ()

    def __post_init__(self) -> None:
        factors = [np.asarray(factor, dtype=np.float64) for factor in self.factors]
        for factor in factors:
            if not _broadcasts(factor.shape, self.shape):
                raise InputError(
                    "shift",
                    f"has weights {list(factor.shape)}, which are none of the {list(self.shape)}"
                    " cells: one number a value along an attribute's axis, and 1 along the others",
                )
        object.__setattr__(
            self,
            "factors",
            tuple(sorted(factors, key=lambda factor: (factor.shape, factor.tobytes()))),
        )
        object.__setattr__(
            self,
            "supplements",
            tuple(sorted(self.supplements, key=lambda supplement: supplement.key)),
        )

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each cell, float64 of `shape`."""
        weights = np.ones(self.shape)
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # who draws by them refuses what is not finite
            for factor in self.factors:
                weights *= factor
        return weights

    @property
    def support(self) -> NDArray[np.bool_]:
        """The cells of positive weight."""
        return self.weights > 0

    def without_supplements(self) -> NormalForm:
        """The weights alone."""
        if not self.supplements:
            return self
        return NormalForm(self.shape, self.factors)

    def __and__(self, other: NormalForm) -> NormalForm:
        """Both at once: weights multiply, supplements unite, each region is cut to the other's
        support."""
        if self.shape != other.shape:
            raise ValueError(f"normal forms over cells of shapes {self.shape} and {other.shape}")
        mine = tuple(supplement.within(other.support) for supplement in self.supplements)
        theirs = tuple(supplement.within(self.support) for supplement in other.supplements)
        factors = self.factors + other.factors
        return NormalForm(self.shape, factors, mine + theirs)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, NormalForm)
            and self.shape == other.shape
            and np.array_equal(self.weights, other.weights)
            and self.supplements == other.supplements
        )

    __hash__ = None  # type: ignore[assignment]


class Shift(ABC):
    """One controlled difference between training and test. Concrete shifts are frozen dataclasses
    of knobs.

    `registered_name`: its `type` in study files, set by `register`. A subclass declares `version`,
    raised when the same settings give other weights.
    """

    registered_name: ClassVar[str]
    numbers: ClassVar[tuple[str, ...]] = ()
    """The knobs that are numbers, or maps to numbers, and may be written as text."""

    def __post_init__(self) -> None:
        for name in self.numbers:
            object.__setattr__(self, name, plain_number(getattr(self, name)))

    @abstractmethod
    def normal_form(self, cells: Cells, field: str = "shift") -> NormalForm:
        """The shift as weights and supplements; raises `InputError` on `field` and the knob's
        name."""

    @abstractmethod
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes that it shifts."""

    def notes(self, cells: Cells) -> tuple[str, ...]:
        """Notes on the shift on these cells for the user: which values were matched, for
        example."""
        return ()

    def warnings(self, cells: Cells) -> tuple[str, ...]:
        """Warnings of what is allowed but rarely meant."""
        return ()

    def observed(self, dataset: AttributedDataset, label: str) -> Shift:
        """The shift with the settings that it takes from the rows of a data set; most take none."""
        return self

    @classmethod
    def observed_settings(
        cls, settings: Mapping[str, Any], dataset: AttributedDataset, label: str
    ) -> dict[str, Any]:
        """The settings of a shift as a study writes them, with those that it takes from the rows of
        a data set."""
        return dict(settings)

    def describe(self) -> Any:
        """The shift as plain values for JSON, which `parse_shift` reads back."""
        described: dict[str, Any] = {"type": self.registered_name}
        for field_of in dataclasses.fields(self):  # type: ignore[arg-type]
            described[field_of.name] = _plain(getattr(self, field_of.name))
        return described

    def __and__(self, other: Shift) -> All:
        if not isinstance(other, Shift):
            return NotImplemented
        return All((self, other))


@final
@dataclass(frozen=True)
class All(Shift):
    """Several shifts at once: the normal forms of all `parts`, joined by `&`. No shift at all is
    uniform."""

    parts: tuple[Shift, ...] = ()

    def __post_init__(self) -> None:
        flat: list[Shift] = []
        for shift in self.parts:
            flat += shift.parts if isinstance(shift, All) else [shift]
        object.__setattr__(self, "parts", tuple(flat))

    def normal_form(self, cells: Cells, field: str = "shift") -> NormalForm:
        """The normal forms of all parts, joined."""
        forms = []
        for number, shift in enumerate(self.parts):
            forms.append(shift.normal_form(cells, f"{field}.{number}"))
        if not any(form.supplements for form in forms):
            factors = tuple(factor for form in forms for factor in form.factors)
            return NormalForm(cells.shape, factors)
        joined = NormalForm(cells.shape)
        for form in forms:
            joined = joined & form
        return joined

    def attributes(self) -> tuple[str, ...]:
        """The attributes of all parts, each once, in order."""
        return tuple(dict.fromkeys(name for shift in self.parts for name in shift.attributes()))

    def notes(self, cells: Cells) -> tuple[str, ...]:
        """The notes of all parts."""
        return tuple(note for shift in self.parts for note in shift.notes(cells))

    def warnings(self, cells: Cells) -> tuple[str, ...]:
        """The warnings of all parts."""
        return tuple(warning for shift in self.parts for warning in shift.warnings(cells))

    def observed(self, dataset: AttributedDataset, label: str) -> All:
        """Each part with the settings that it takes from the rows."""
        return All(tuple(shift.observed(dataset, label) for shift in self.parts))

    def describe(self) -> Any:
        """A list of the parts as plain values."""
        return [shift.describe() for shift in self.parts]


def parse_shift(spec: Any, field: str = "shift") -> Shift:
    """The shift that plain values name: a name, `{"type": name, knob: value, ...}`, or a list of
    these (all at once).

    Null and the empty list are uniform. Raises `InputError` on the dotted path of what is wrong.
    """
    if isinstance(spec, Shift):
        return spec
    if spec is None:
        return All()
    if isinstance(spec, str):
        spec = {"type": spec}
    if isinstance(spec, Mapping):
        if "type" not in spec:
            names = [registered.name for registered in _shifts()]
            raise InputError(f"{field}.type", "a shift needs its type", names)
        name = spec["type"]
        if not isinstance(name, str):
            problem = f"must be the name of a shift, not {shown(name)}"
            raise InputError(
                f"{field}.type", problem, [registered.name for registered in _shifts()]
            )
        shift_facts = facts("shifts", name, f"{field}.type")
        values = {key: value for key, value in spec.items() if key != "type"}
        return load("shifts", name)(**resolve(shift_facts.knobs, values, field, f"shift {name!r}"))
    if isinstance(spec, Sequence):
        return All(
            tuple(
                parse_shift(shift_spec, f"{field}.{number}")
                for number, shift_spec in enumerate(spec)
            )
        )
    raise InputError(
        field,
        f"must be a shift or a list of shifts, not {shown(spec)}",
        [registered.name for registered in _shifts()],
    )


def code_of(attribute: Attribute, value: object, field: str) -> int:
    """The code of a value by its name; "first" and "last" name the first and last value where no
    value is called so."""
    if value in ("first", "last") and value not in attribute.values:
        if value == "first":
            return 0
        return len(attribute.values) - 1
    if (
        isinstance(value, Mapping)
        or value is None
        or (isinstance(value, Sequence) and not isinstance(value, str))
    ):
        problem = f"must be a value of {attribute.name!r}, not {shown(value)}"
        raise InputError(field, problem, attribute.values)
    return attribute.code_of(value, field)


def codes_of(attribute: Attribute, values: object, field: str) -> list[int]:
    """The codes of one value or a list of values, at least one, none twice."""
    if isinstance(values, Sequence) and not isinstance(values, str):
        listed = list(values)
    else:
        listed = [values]
    if not listed:
        raise InputError(field, f"names no value of {attribute.name!r}", attribute.values)
    codes = [code_of(attribute, value, field) for value in listed]
    if len(set(codes)) < len(codes):
        problem = f"names a value of {attribute.name!r} twice: {', '.join(map(str, listed))}"
        raise InputError(field, problem)
    return codes


def exact(value: object, field: str, low: float = 0, high: float = math.inf) -> Fraction:
    """A number as the fraction that the user wrote: 0.01 is 1/100, "1/3" is a third; checked to lie
    in [low, high].

    Counts made from a binary 0.01 would round up where the exact product is a whole number.
    """
    number = value if isinstance(value, Fraction) else None
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        if isinstance(value, str):
            text = value.strip()
        else:
            text = repr(value)
        number = _fraction(text)
    if number is not None and not _holds(number):
        number = None
    if number is None or not low <= number <= high:
        if math.isinf(high):
            bounds = f"of at least {low}"
        else:
            bounds = f"in [{low}, {high}]"
        raise InputError(
            field,
            f'must be a number {bounds} (a fraction may be written "1/3"), not {shown(value)}'
            + (share_hint(value) if high == 1 or isinstance(value, str) else ""),
        )
    return number


def plain_number(value: Any) -> Any:
    """One spelling of each number, for descriptions and keys: 0.2 for "1/5", "0.20" and "2e-1";
    "1/3" for "2/6".

    A fraction is the float that is written with its digits, where there is one. 0.3333333333333333
    stays what it is: it is less than 1/3. Maps are gone through, and what is no number is left as
    it is, for `exact` to refuse.
    """
    if isinstance(value, Mapping):
        return {key: plain_number(member) for key, member in value.items()}
    if isinstance(value, str):
        number = _fraction(value.strip())
    else:
        number = value
    if not isinstance(number, Fraction) or not _holds(number):
        return value
    nearest = float(number)
    if Fraction(repr(nearest)) == number:
        return nearest
    return str(number)


def _holds(number: Fraction) -> bool:
    """Whether a float holds the number, if not to the last digit: weights are floats."""
    try:
        return number == 0 or float(number) != 0
    except OverflowError:
        return False


@lru_cache(maxsize=1024)
def _fraction(text: str) -> Fraction | None:
    if "_" in text or not text.isascii():  # Python reads 1_0 as ten, and digits of every script
        return None
    exponent = text.lower().rpartition("e")[2]
    if len(text) > 1000 or (
        exponent != text.lower() and len(exponent) > 5
    ):  # "1e999999999" would fill the memory
        return None
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):  # a NaN and an infinity have no fraction either
        return None


def frozen(value: Any) -> Any:
    """Lists made tuples, so that a shift never changes after it was made."""
    if isinstance(value, list | tuple):
        return tuple(frozen(member) for member in value)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    if isinstance(value, Fraction):
        return str(value)
    return value


def _shifts() -> list[Any]:
    from crosswind.core.registry import listing

    return listing("shifts")
