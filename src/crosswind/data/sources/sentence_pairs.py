"""Natural language inference: pairs of a premise and a hypothesis, by genre and from clinical
notes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from crosswind.core.cards import card_of
from crosswind.core.registry import register
from crosswind.data.sources.base import Reading
from crosswind.data.sources.packed_texts import joined, of_texts, records, word
from crosswind.data.sources.packed_trees import Packed

RELATIONS = ("entailment", "neutral", "contradiction")
_MOST = 2 << 30


@dataclass(frozen=True, kw_only=True)
class _Pairs(Packed):
    """Pairs in JSON lines with `gold_label`, `sentence1` and `sentence2`; a subclass says which
    file is which part of the split."""

    name: ClassVar[str]

    def lists_of_parts(self) -> Mapping[str, str]:
        """Part of the split -> name of its file."""
        raise NotImplementedError

    def genre(self, record: Mapping[str, Any], where: str) -> str | None:
        """The genre of a pair; None where the data set has none."""
        return None

    def unit_of(self, record: Mapping[str, Any], where: str) -> str:
        """The unit of pairs: equal where they have one premise."""
        return word(record, "sentence1", where)

    def read(self, folder: Path) -> Reading:
        """The pairs of each part, in the order of its file; those on which the annotators did not
        agree (`-`) are left out."""
        tree = self.tree(folder)
        names = self.lists_of_parts()
        lists = self.lists(folder, tree, names.values())
        cells: dict[str, list[str]] = {"relation": [], "genre": [], "split": []}
        texts: list[str] = []
        units: list[str] = []
        rows_of_part = dict.fromkeys(names, 0)
        for part_name, name in names.items():
            table_columns, inside = lists[name]
            where = f"{table_columns.name}: {inside}"
            for number, record in records(_lines(table_columns.read(inside, _MOST)), where):
                location = f"{where}, line {number:,}"
                relation = word(record, "gold_label", location, (*RELATIONS, "-"))
                if relation == "-":
                    continue
                cells["relation"].append(relation)
                cells["genre"].append(self.genre(record, location) or "")
                cells["split"].append(part_name)
                texts.append(
                    joined(word(record, f"sentence{part_name}", location) for part_name in (1, 2))
                )
                units.append(self.unit_of(record, location))
                rows_of_part[part_name] += 1
        genre = self.card.attributes.get("genre", ())
        values = {"relation": RELATIONS, "genre": genre, "split": tuple(names)}
        values_and_cells = {name: (values[name], cells[name]) for name in cells if values[name]}
        return Reading(of_texts(self.name, values_and_cells, texts, units), rows_of_part)


@register("mnli", kind="source")
@dataclass(frozen=True)
class MultiNLI(_Pairs):
    """MultiNLI: 412,349 pairs of a premise and a hypothesis in ten genres of written and spoken
    English.

    Attributes: `relation` (entailment, neutral, contradiction), `genre`, `split`: train and matched
    are of the genres fiction, government, slate, telephone and travel, mismatched of facetoface,
    letters, nineeleven, oup and verbatim. Rows of the development sets without a gold label are
    left out. Pairs of one premise (`promptID`) are a unit. A text has two parts. Layout:
    `multinli_1.0_train.jsonl`, `_dev_matched.jsonl` and `_dev_mismatched.jsonl`, in the zip or
    unpacked.
    Reference: A. Williams, N. Nangia, S. Bowman, A Broad-Coverage Challenge Corpus for Sentence
    Understanding through Inference, NAACL 2018.
    """

    card = card_of("mnli")
    name = "mnli"

    def lists_of_parts(self) -> Mapping[str, str]:
        """See the class."""
        ends = {"train": "train", "matched": "dev_matched", "mismatched": "dev_mismatched"}
        return {part_name: f"multinli_1.0_{end}.jsonl" for part_name, end in ends.items()}

    def genre(self, record: Mapping[str, Any], where: str) -> str:
        """See the class."""
        return word(record, "genre", where, self.card.attributes["genre"])

    def unit_of(self, record: Mapping[str, Any], where: str) -> str:
        """See the class."""
        return word(record, "promptID", where)


@register("mednli", kind="source")
@dataclass(frozen=True)
class MedNLI(_Pairs):
    """MedNLI: 14,049 pairs of a sentence of a patient's history and a hypothesis about it, by
    clinicians.

    Attributes: `relation` (entailment, neutral, contradiction), `split` (train, dev, test). Pairs
    of one premise are a unit. A text has two parts. Layout: `mli_train_v1.jsonl`,
    `mli_dev_v1.jsonl` and `mli_test_v1.jsonl`. PhysioNet gives the files to those who have signed
    for them.
    Reference: A. Romanov, C. Shivade, Lessons from Natural Language Inference in the Clinical
    Domain, EMNLP 2018.
    """

    card = card_of("mednli")
    name = "mednli"

    def lists_of_parts(self) -> Mapping[str, str]:
        """See the class."""
        return {part_name: f"mli_{part_name}_v1.jsonl" for part_name in ("train", "dev", "test")}


def _lines(data: bytes) -> Iterator[bytes]:
    yield from io.BytesIO(data)
