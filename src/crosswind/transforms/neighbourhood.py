"""The changed copies of rows on which estimators of accuracy learn: neighbourhoods of images, texts
and vectors, and the pools.

A neighbourhood is a registered transform and values of its knobs. An estimator draws `NEIGHBOURS`
rows from it and adds the row itself. Reference: Ng, Hulkund, Cho and Ghassemi, Predicting
Out-of-Domain Generalization with Neighborhood Invariance, TMLR 2023, section 4.4 and appendix A.5.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from crosswind.core.errors import InputError, shown, unknown
from crosswind.core.knobs import resolve
from crosswind.core.registry import facts, listing

NEIGHBOURS = 10
"""Rows drawn for each, beside the row itself."""

CHOSEN = "ni"
"""The neighbourhood whose transform its estimator names."""

ROOMS: Mapping[str, str] = MappingProxyType(
    {"image": "transforms", "text": "text-transforms", "features": "vector-transforms"}
)
"""By kind of input, the room of the transforms that change it."""


@dataclass(frozen=True)
class Neighbourhood:
    """A registered transform and values of its knobs. `large` are the values that differ for images
    of ImageNet's size.

    `takes`: the kind of its rows, `image`, `text` or `features`.
    """

    transform: str
    settings: Mapping[str, Any]
    large: Mapping[str, Any] = field(default_factory=dict)
    takes: str = "image"

    def knobs(self, large: bool = False) -> dict[str, Any]:
        """All values, for small images or for those of ImageNet's size."""
        return {**self.settings, **(self.large if large else {})}


NEIGHBOURHOODS: Mapping[str, Neighbourhood] = MappingProxyType(
    {
        # Each operation at a level drawn up to 15 of 30.
        "ni-randaugment": Neighbourhood(
            "randaugment",
            {"count": 1, "magnitude": 15, "draw": "uniform", "bins": 31},
            {"count": 3},
        ),
        "ni-translate": Neighbourhood(
            "translate", {"horizontal": 0.1, "vertical": 0.1, "draw": "uniform"}
        ),
        "ni-erase": Neighbourhood(
            "erase", {"largest": 0.33, "widest": 3.0, "tallest": 10 / 3, "probability": 1.0}
        ),
        "ni-flipcrop": Neighbourhood(
            "flip-crop", {"scale": 0.08, "flip": 0.5, "narrowest": 3 / 4, "widest": 4 / 3}
        ),
        "ni-eda": Neighbourhood(
            "eda", {"replace": 0.1, "insert": 0.1, "swap": 0.1, "delete": 0.1}, takes="text"
        ),
        # The model, and the largest share or temperature, are knobs of the estimator.
        "ni-ssmba": Neighbourhood("ssmba", {"draw": "uniform"}, takes="text"),
        "ni-backtranslation": Neighbourhood("back-translation", {"draw": "uniform"}, takes="text"),
        "ni-randomreplace": Neighbourhood("random-replacement", {"rate": 0.15}, takes="text"),
    }
)


def neighbourhood(
    name: str, handed: Mapping[str, Any] | None = None, field: str = "neighbourhood"
) -> Neighbourhood:
    """The neighbourhood of that name, with the settings that its estimator hands over; an unknown
    one is an `InputError` on `field` with the nearest names.

    `CHOSEN` is handed the name of a transform, `transform`, and values of its knobs, `settings`.
    """
    handed = handed or {}
    if name == CHOSEN:
        transform = handed.get("transform", "")
        takes = kind_changed_by(transform, field)
        return Neighbourhood(transform, handed.get("settings", {}), takes=takes)
    if name not in NEIGHBOURHOODS:
        raise unknown(field, "neighbourhood", name, [*NEIGHBOURHOODS, CHOSEN])
    definition = NEIGHBOURHOODS[name]
    return replace(
        definition,
        settings={**definition.settings, **handed},
        large={key: value for key, value in definition.large.items() if key not in handed},
    )


def kind_changed_by(transform: str, field: str = "transform") -> str:
    """The kind of input, a key of `ROOMS`, that a registered transform changes; an unknown one is
    an `InputError` on `field`."""
    names: list[str] = []
    for kind in ROOMS:
        of_kind = transforms_of(kind)
        if transform in of_kind:
            return kind
        names += of_kind
    if not transform:
        raise InputError(field, "needs the name of the transform that makes neighbours", names)
    raise unknown(field, "transform", transform, names)


def transforms_of(kind: str) -> list[str]:
    """The names of the registered transforms that change inputs of a kind; none of a kind that none
    changes."""
    return [entry.name for entry in listing(ROOMS[kind])] if kind in ROOMS else []


def fitting_estimators(kind: str) -> list[str]:
    """The estimators whose neighbours are inputs of a kind: those of its neighbourhoods, and `ni`
    by each of its transforms."""
    names = [name for name, definition in NEIGHBOURHOODS.items() if definition.takes == kind]
    return [*names, *(f"{CHOSEN}: {{transform: {name}}}" for name in transforms_of(kind))]


def gathered_settings(
    values: Mapping[str, Any], own_knobs: Collection[str], field: str
) -> dict[str, Any]:
    """The settings of an estimator whose neighbourhood is `CHOSEN`, from those that a person wrote
    in one mapping: what is none of its `own_knobs` is a knob of the transform.

    `{transform: rotate, degrees: 20}` becomes `{transform: rotate, settings: {degrees: 20, ...}}`,
    with all knobs of the transform and each checked. Raises `InputError` on a field of `field`.
    """
    out = {name: value for name, value in values.items() if name in own_knobs}
    transform = out.get("transform", "")
    if not isinstance(transform, str):
        raise InputError(f"{field}.transform", f"must be text, not {shown(transform)}")
    kind = kind_changed_by(transform, f"{field}.transform")
    inside = out.get("settings", {})
    if not isinstance(inside, Mapping):
        raise InputError(f"{field}.settings", f"must be a mapping, not {shown(inside)}")
    written = {name: value for name, value in values.items() if name not in own_knobs}
    for name in written:
        if name in inside:
            raise InputError(f"{field}.{name}", "stands in settings too; write it once")
    knobs = facts(ROOMS[kind], transform).knobs
    out["settings"] = resolve(knobs, {**inside, **written}, field, f"transform {transform!r}")
    return out


@dataclass(frozen=True)
class Change:
    """A change of a pool: a registered transform and values of its knobs.

    `family`: changes of one go wrong alike. `of`: the transform, where it has another name than the
    family.
    """

    family: str
    knobs: Mapping[str, Any]
    of: str = ""

    @property
    def transform(self) -> str:
        """The registered name."""
        return self.of or self.family

    @property
    def name(self) -> str:
        """Such as `fog (severity 3)`."""
        knobs_in_words = (
            f"{key} {value:g}"
            for key, value in self.knobs.items()
            if value and not isinstance(value, str)
        )
        return f"{self.family} ({', '.join(knobs_in_words)})"


_CORRUPTIONS = (
    *(
        "gaussian-noise",
        "shot-noise",
        "impulse-noise",
        "speckle-noise",
        "defocus-blur",
        "glass-blur",
        "motion-blur",
        "zoom-blur",
    ),
    *(
        "gaussian-blur",
        "snow",
        "frost",
        "fog",
        "brightness",
        "contrast",
        "saturate",
        "spatter",
        "elastic",
        "pixelate",
        "jpeg",
    ),
)

POOL: tuple[Change, ...] = (
    *(Change(name, {"severity": severity}) for name in _CORRUPTIONS for severity in (1, 3, 5)),
    *(Change("rotate", {"degrees": degrees}) for degrees in (10.0, 20.0, 40.0)),
    *(Change("translate", {"horizontal": share, "vertical": share}) for share in (0.05, 0.1, 0.2)),
    *(Change("shear", {"horizontal": degrees}) for degrees in (10.0, 20.0, 40.0)),
    *(Change("erase", {"largest": share, "probability": 1.0}) for share in (0.1, 0.2, 0.33)),
)
"""What makes a pool of labelled sets of a source of images: every corruption of ImageNet-C, its
four further ones, and four changes of geometry, each at three strengths."""

_EDITS = {
    "synonyms": "replace",
    "insertion": "insert",
    "swapped words": "swap",
    "deletion": "delete",
}
_ERRORS = (
    *(
        ("swapped letters", "swap"),
        ("omitted letters", "omit"),
        ("doubled letters", "double"),
        ("keys beside", "neighbour"),
    ),
    *(
        ("digits for letters", "digits"),
        ("no vowels", "vowels"),
        ("cut words", "cut"),
        ("divided words", "split"),
    ),
    *(("joined words", "join"), ("repeated words", "repeat"), ("capitals", "capitals")),
)
_PARTS = {"first words": "start", "last words": "end", "words from between": "any"}
_SORTS = {"no stop words": "stop-words", "no content words": "content", "no marks": "marks"}
_RATES = (0.1, 0.3, 0.6)

TEXT_POOL: tuple[Change, ...] = (
    *(
        Change(family, {**dict.fromkeys(_EDITS.values(), 0.0), edit: rate}, "eda")
        for family, edit in _EDITS.items()
        for rate in _RATES
    ),
    *(Change("random-replacement", {"rate": rate}) for rate in _RATES),
    *(
        Change(family, {"kind": kind, "rate": rate}, "typos")
        for family, kind in _ERRORS
        for rate in (0.15, 0.4, 0.8)
    ),
    *(
        Change(family, {"part": part_of_pool, "share": share}, "excerpt")
        for family, part_of_pool in _PARTS.items()
        for share in (0.5, 0.25, 0.1)
    ),
    *(
        Change(family, {"sort": sort, "rate": rate}, "drop-words")
        for family, sort in _SORTS.items()
        for rate in (0.3, 0.6, 0.9)
    ),
)
"""The same of texts: each edit of EDA alone, random replacement, typing errors, excerpts, and words
of one sort dropped."""


def pool_of_kind(kind: str) -> tuple[Change, ...]:
    """The changes of the pool for rows of a kind, `image` or `text`; empty for another, which has
    none."""
    return {"image": POOL, "text": TEXT_POOL}.get(kind, ())
