"""A proposed study as the text of its file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crosswind.proposals.design import ShiftDesign
from crosswind.proposals.label import Label

LISTED = 8
"""Further attributes that a comment names."""
_TRAINED = {
    "images": """\
models: [small-cnn]        # crosswind list models; resnet18 is what papers use, and slower
methods: {erm: {}, groupdro: {shifts: [SC]}, jtt: {shifts: [SC]}}
training: {steps: 160, batch: 64, lr: 0.001, validate_every: 40, patience: null}
""",
    "texts": """\
models: [bag-of-words]     # seconds a run; text-cnn and transformer read the order of words, and are slower
methods: {erm: {}, groupdro: {shifts: [SC]}, jtt: {shifts: [SC]}}
training: {steps: 200, batch: 64, lr: 0.01, validate_every: 20, patience: null}
""",
    "numbers": """\
models: [tabular]          # scales numbers by its training rows; linear-probe and mlp take them as they stand
methods: {erm: {}, groupdro: {shifts: [SC]}, jtt: {shifts: [SC]}}
training: {steps: 200, batch: 64, lr: 0.001, validate_every: 40, patience: null}
""",
}


@dataclass(frozen=True)
class Draft:
    """What a proposed study says.

    `options`: settings of the source `table`; `kind`: of inputs, "images", "texts" or "numbers";
    `designs`: one for each attribute that is shifted; `official`: the roles of a column of the table,
    `official_test`: rows of each cell that test of them; `further`: attributes that fit too;
    `strengths`: of the spurious correlation by attribute, `observed` in the rows or
    not; `rule`: the words that part texts by length; `repeats`: of every run, each on other rows.
    """

    options: Mapping[str, Any]
    kind: str
    label: Label
    designs: tuple[ShiftDesign, ...]
    further: tuple[str, ...]
    unit: str | None
    official: Mapping[str, Any] | None
    official_test: int
    strengths: Mapping[str, float]
    observed: bool
    rule: int | None
    same: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    distinct: Sequence[str] = ()
    repeats: int = 20


def study_text(draft: Draft) -> str:
    """The text of a study file."""
    attributes = [design.attribute for design in draft.designs]
    several = len(attributes) > 1
    shifted = "tied" if several else word(attributes[0])
    named = " or ".join([", ".join(attributes[:-1]), attributes[-1]] if several else attributes)
    data = "".join(_data(draft, design, several) for design in draft.designs)
    further = ""
    if draft.further:
        further = f"# more attributes that fit: {', '.join(draft.further[:LISTED])}\n"
    return f"""# Does a classifier of {draft.label.name} lean on {named}?
#   which of them hurts most, how much it costs, and which method helps: the first lines of the page
#   crosswind plan FILE      says what would run; trains nothing
#   crosswind run FILE       runs it and writes a page of what was found
data:
{data}{further}shifts:
  none: []
{_tie_comment(draft)}  SC: {{type: spurious-correlation, attribute: {shifted}, strength: {_strength(draft)}, counterexamples: 0}}
{_unseen(draft, several)}sizes: {{balanced: balanced}}    # as many rows under every shift, in just its proportions
{_sets(draft)}groups: [{shifted}]
{_TRAINED[draft.kind]}{_repeats(draft)}"""


def _sets(draft: Draft) -> str:
    """The sets of a study whose table deals its own roles: as many test rows of each cell, since the
    table's own test rows are as tied as the others."""
    if draft.official is None:
        return ""
    return (
        "sets:\n"
        "  validation: {role: validation, law: train}\n"
        f"  test: {{role: test, draw: {{base: {draft.official_test}}}}}    # of each cell\n"
    )


def _tie_comment(draft: Draft) -> str:
    """What the spurious correlation is, as a comment."""
    pairs = []
    for design in draft.designs:
        if design.tie.matching:
            matching = []
            for name, values in design.tie.matching.items():
                matching.append(f"{name} with {' or '.join(values)}")
            share = f"{design.tie.matched_share:.0%} of the rows"
            pairs.append(f"{design.attribute}: {', '.join(matching)} in {share}")
    lines = [f"  # the rows themselves tie {pair}\n" for pair in pairs]
    if not pairs:
        how = "though the rows do not: what would such a tie cost"
    elif draft.observed:
        how = "as strongly as the rows do"
    else:
        how = "more strongly than the rows do"
    lines.append(f"  # training ties the attribute to the label {how}; testing does not\n")
    return "".join(lines)


def _strength(draft: Draft) -> str:
    """The strength of the spurious correlation: one number, or one for each attribute."""
    if len(set(draft.strengths.values())) == 1:
        return f"{next(iter(draft.strengths.values())):g}"
    return word({name: float(strength) for name, strength in draft.strengths.items()})


def _unseen(draft: Draft, several: bool) -> str:
    """The shift in which a value is never seen, where there is one attribute of three values."""
    design = draft.designs[0]
    if several or len(design.values) < 3:
        return ""
    rows_of_value = design.tie.counts.sum(axis=0)
    rare = design.values[int(rows_of_value.argmin())]
    return (
        "  # the rarest value is never seen in training\n"
        f"  UDS: {{type: unseen-data, attribute: {word(design.attribute)}, unseen: {word(rare)}}}\n"
    )


def _data(draft: Draft, design: ShiftDesign, several: bool) -> str:
    """The entry of one attribute under `data`."""
    by_rule = draft.rule is not None
    columns = [draft.label.name] + ([] if by_rule else [design.attribute])
    roles: dict[str, Any] = {"test": design.test, "validation": 0.15}
    if draft.official is not None:
        columns.append(str(draft.official["column"]))
        roles = {"validation": 0.15, "official": dict(draft.official)}
    options = {**draft.options, "columns": list(dict.fromkeys(columns))}
    if "bins" in options:
        bins = {name: cuts for name, cuts in options["bins"].items() if name in columns}
        options = {**options, "bins": bins} if bins else _without(options, "bins")
    options["empty"] = "leave-out"
    if several:
        slots = f"{{tied: {word(design.attribute)}}}"
    else:
        slots = f"[{word(design.attribute)}]"
    lines = [
        f"  {word(entry_name(design.attribute))}:",
        "    source: table",
        f"    options: {word(options)}",
        f"    label: {word(draft.label.name)}",
        f"    attributes: {slots}",
    ]
    lines += _kept(draft, design) + _spelled(draft, design)
    if by_rule:
        lines.append(
            f"    rules: {{{word(design.attribute)}: {{words: [{draft.rule}]}}}}    # shorter texts, and"
            " those of so many words and more"
        )
    if draft.unit is None:
        lines.append(
            "    # unit: COLUMN   # rows of one value, such as a patient, are never in both training"
            " and test"
        )
    comment = "test rows of each cell; a share of the others validates"
    if draft.official:
        comment = "the table's own"
    lines.append(f"    roles: {word(roles)}    # {comment}")
    return "\n".join(lines) + "\n"


def _kept(draft: Draft, design: ShiftDesign) -> list[str]:
    """The values that are kept, where some have too few rows."""
    kept_values: dict[str, list[str]] = {}
    all_values = _n_values(draft, design)
    if len(design.classes) < all_values[0]:
        kept_values[draft.label.name] = list(design.classes)
    if len(design.values) < all_values[1] and draft.rule is None:
        kept_values[design.attribute] = list(design.values)
    if kept_values:
        return [f"    keep: {word(kept_values)}    # the others have too few rows"]
    return []


def _n_values(draft: Draft, design: ShiftDesign) -> tuple[int, int]:
    """The numbers of classes and of values that the columns have."""
    return draft.label.n_values, len(design.values) + sum(
        value not in draft.label.classes for value in design.left_out
    )


def _spelled(draft: Draft, design: ShiftDesign) -> list[str]:
    """Which values are one, and which are not."""
    used = (draft.label.name, design.attribute)
    lines = []
    same = {name: dict(ways) for name, ways in draft.same.items() if name in used}
    if same:
        lines.append(f"    same: {word(same)}    # other ways in which a value is written")
    distinct = [name for name in draft.distinct if name in used]
    if distinct:
        lines.append(
            f"    distinct: {word(distinct)}    # values that differ though they look alike"
        )
    return lines


def _repeats(draft: Draft) -> str:
    if draft.official is not None:
        return f"seeds: {draft.repeats}    # each with other training rows and another start\n"
    return f"split_seeds: {draft.repeats}    # each with other rows for testing and training\nseeds: 1\n"


def _without(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key != name}


def word(value: object) -> str:
    """A value as it stands in a study file."""
    import yaml

    written = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=100_000)
    return str(written).removesuffix("...\n").strip()


def entry_name(attribute: str) -> str:
    """The name of the data of an attribute: its own, without marks that no name may hold."""
    return re.sub(r"[^A-Za-z0-9_.+:/@ -]", "_", attribute)[:100] or "own"
