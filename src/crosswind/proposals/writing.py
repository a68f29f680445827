"""A proposed study as the text of its file."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from crosswind.core.errors import one_line
from crosswind.proposals.design import ShiftDesign
from crosswind.proposals.label import Label
from crosswind.studies.reading import is_value

LISTED = 8
"""Further attributes that a comment names."""


@dataclass(frozen=True)
class Draft:
    """The contents of a proposed study.

    `options`: settings of the source `table`. `kind`: of inputs, "images", "texts" or "numbers".
    `designs`: one for each attribute that is shifted. `official`: the roles of a column of the
    table. `test_of_cell`: rows of each cell that the test set draws, None for all that may test.
    `further`: attributes that fit too.
    `strengths`: of the spurious correlation by attribute, `observed` in the rows or not. `rule`:
    the words that part texts by length. `derive`: how a transform makes the attribute. `repeats`:
    of every run, each on other rows. `methods`: tried beside plain training. `forest`: whether a
    random forest is a second model.
    """

    options: Mapping[str, Any]
    kind: str
    label: Label
    designs: tuple[ShiftDesign, ...]
    further: tuple[str, ...]
    unit: str | None
    official: Mapping[str, Any] | None
    test_of_cell: int | None
    strengths: Mapping[str, float]
    observed: bool
    rule: int | None
    derive: Mapping[str, Any] | None = None
    same: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    distinct: Sequence[str] = ()
    repeats: int = 20
    methods: tuple[str, ...] = ("groupdro", "jtt")
    forest: bool = False


def study_text(draft: Draft) -> str:
    """The text of a study file, by the template `study.yaml.j2`."""
    attributes = [design.attribute for design in draft.designs]
    several = len(attributes) > 1
    named = " or ".join([", ".join(attributes[:-1]), attributes[-1]] if several else attributes)
    text: str = _template().render(
        draft=draft,
        label=draft.label.name,
        attributes=named,
        shifted="tied" if several else word(attributes[0]),
        entries=_entries(draft, several),
        listed=LISTED,
        ties=_ties(draft),
        how_tied=_how_tied(draft),
        strength=_strength(draft),
        unseen=_unseen(draft),
        methods=_methods(draft),
    )
    return text


@cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    source = PackageLoader("crosswind", "proposals")
    environment = Environment(
        loader=source,
        autoescape=False,  # YAML: the filter `word` quotes what needs it
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"word": word, "one_line": one_line}
    return environment.get_template("study.yaml.j2")


def _ties(draft: Draft) -> list[str]:
    """Which values the rows tie to which classes, by attribute."""
    ties = []
    for design in draft.designs:
        if design.tie.matching:
            matching = []
            for name, values in design.tie.matching.items():
                matching.append(f"{name} with {' or '.join(values)}")
            share = f"{design.tie.matched_share:.0%} of the rows"
            ties.append(f"{design.attribute}: {', '.join(matching)} in {share}")
    return ties


def _how_tied(draft: Draft) -> str:
    """How strong the spurious correlation is beside the tie of the rows."""
    if not any(design.tie.matching for design in draft.designs):
        return "though the rows do not: what would such a tie cost"
    if draft.observed:
        return "as strongly as the rows do"
    return "more strongly than the rows do"


def _strength(draft: Draft) -> str:
    """The strength of the spurious correlation: one number, or one for each attribute."""
    if len(set(draft.strengths.values())) == 1:
        return f"{next(iter(draft.strengths.values())):g}"
    return word({name: float(strength) for name, strength in draft.strengths.items()})


def _unseen(draft: Draft) -> str:
    """The rarest value, which a shift leaves out of training, where there is one attribute of three
    values or more; else empty."""
    design = draft.designs[0]
    if len(draft.designs) > 1 or len(design.values) < 3:
        return ""
    rows_of_value = design.tie.counts.sum(axis=0)
    return word(design.values[int(rows_of_value.argmin())])


def _methods(draft: Draft) -> str:
    """The methods of a study. A forest descends no gradient: methods beside plain training are the
    network's."""
    where = "{models: [tabular], shifts: [SC]}" if draft.forest else "{shifts: [SC]}"
    named = ["erm: {}", *(f"{method}: {where}" for method in draft.methods)]
    return f"{{{', '.join(named)}}}"


def _entries(draft: Draft, several: bool) -> list[dict[str, Any]]:
    """The entries under `data`, of different names."""
    entries = [_entry(draft, design, several) for design in draft.designs]
    names: list[str] = []
    for number, entry in enumerate(entries, start=1):
        if entry["name"] in names:
            entry["name"] = f"{entry['name']}_{number}"
        names.append(entry["name"])
    return entries


def _entry(draft: Draft, design: ShiftDesign, several: bool) -> dict[str, Any]:
    """The entry under `data` for one attribute."""
    attribute = design.attribute
    columns = [draft.label.name] + ([] if _is_made(draft) else [attribute])
    roles: dict[str, Any] = {"test": design.test, "validation": 0.15}
    if draft.official is not None:
        columns.append(str(draft.official["column"]))
        roles = {"validation": 0.15, "official": dict(draft.official)}
    options = {**draft.options, "columns": list(dict.fromkeys(columns))}
    if "bins" in options:
        bins = {name: cuts for name, cuts in options["bins"].items() if name in columns}
        options = {**options, "bins": bins} if bins else _without(options, "bins")
    options["empty"] = "leave-out"
    used = (draft.label.name, attribute)
    return {
        "name": entry_name(attribute),
        "attribute": attribute,
        "options": options,
        "slots": f"{{tied: {word(attribute)}}}" if several else f"[{word(attribute)}]",
        "keep": _kept(draft, design),
        "same": {name: dict(ways) for name, ways in draft.same.items() if name in used},
        "distinct": [name for name in draft.distinct if name in used],
        "roles": roles,
    }


def _kept(draft: Draft, design: ShiftDesign) -> dict[str, list[str]]:
    """The values that are kept, by column, where others have too few rows."""
    n_values = len(design.values) + sum(
        value not in draft.label.classes for value in design.left_out
    )
    kept_values: dict[str, list[str]] = {}
    if len(design.classes) < draft.label.n_values:
        kept_values[draft.label.name] = list(design.classes)
    if len(design.values) < n_values and not _is_made(draft):
        kept_values[design.attribute] = list(design.values)
    return kept_values


def _is_made(draft: Draft) -> bool:
    """Whether the attribute is no column of the table."""
    return draft.rule is not None or draft.derive is not None


def _without(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key != name}


def word(value: object) -> str:
    """A value as it stands anywhere in a study file, in lists and mappings of one line too."""
    import yaml

    class OneLine(yaml.SafeDumper):
        """Writes texts of several lines as one, in double quotes."""

    def of_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        style = None
        if is_value(text):  # numbers of YAML 1.2, which this dumper takes for words
            style = "'"
        if "\n" in text or "\r" in text:
            style = '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    OneLine.add_representer(str, of_text)
    # In a list, where a comma or a bracket ends a word that has no quotes.
    written = yaml.dump(
        [value], Dumper=OneLine, default_flow_style=True, allow_unicode=True, width=1_000_000
    )
    return str(written).strip().removeprefix("[").removesuffix("]")


def entry_name(attribute: str) -> str:
    """The name of the data of an attribute: its own, without marks and accents that no name may hold;
    a plain word for one in another script, of which nothing would be left."""
    parted = unicodedata.normalize("NFKD", attribute.replace("ß", "ss"))
    plain = "".join(mark for mark in parted if not unicodedata.combining(mark))
    name = re.sub(r"[^A-Za-z0-9_.+:/@ -]", "_", plain)[:100]
    return name if re.search("[A-Za-z0-9]", name) else "attribute"
