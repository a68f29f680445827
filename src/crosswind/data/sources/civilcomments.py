"""CivilComments-WILDS: comments on news, whether they are toxic, and whom they speak of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError, shown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.sources.base import Reading
from crosswind.data.sources.packed_texts import joined, of_texts
from crosswind.data.sources.packed_trees import Packed
from crosswind.data.sources.wilds_table import WildsTable

IDENTITIES = ("male", "female", "LGBTQ", "christian", "muslim", "other_religions", "black", "white")
FILE = "all_data_with_identities.csv"


@register("civilcomments", kind="source")
@dataclass(frozen=True)
class CivilComments(Packed):
    """CivilComments-WILDS: 448,000 comments on news articles, toxic or not, with the groups of
    people that they mention.

    Attributes: `toxicity` (no, yes: at least half of the raters), for each of the eight identities
    of WILDS (male, female, LGBTQ, christian, muslim, other_religions, black, white) and for
    `identity_any` whether it is mentioned (no, yes: at least half of the raters), `split` (train,
    val, test). An article's comments are a unit. The groups of WILDS are `groups: [toxicity,
    IDENTITY]`, which overlap; the groups of a study do not, so that it takes one identity, or
    `identity_any`. Layout: WILDS version 1.0, `all_data_with_identities.csv`.
    Reference: D. Borkan et al., Nuanced Metrics for Measuring Unintended Bias with Real Data for
    Text Classification, WWW 2019; P. W. Koh et al., WILDS, ICML 2021.
    """

    unit: str = knob("article", domain="{article, none}", doc="what is never in two roles")

    card = card_of("civilcomments")

    def read(self, folder: Path) -> Reading:
        """The comments in the order of the table."""
        tree = self.tree(folder)
        column_names = [*IDENTITIES, "identity_any"]
        table_columns, inside = self.lists(folder, tree, [FILE])[FILE]
        rows = WildsTable(
            table_columns,
            inside,
            ["comment_text", "split", "toxicity", "article_id", *column_names],
            self.card.get,
        )
        splits: Mapping[str, tuple[str, ...]] = self.card.attributes
        rows.words("split", splits["split"])
        texts = [joined([text]) for text in rows["comment_text"]]
        if (
            blank := next((row for row, text in enumerate(texts, 1) if not text.strip()), None)
        ) is not None:
            raise DataError(f"{rows.where}, row {blank:,} has no comment")
        columns = {}
        for name in ["toxicity", *column_names]:
            columns[name] = (("no", "yes"), _halves(rows, name))
        split = (splits["split"], rows["split"])
        dataset = of_texts("civilcomments", columns | {"split": split}, texts, rows["article_id"])
        return Reading(
            dataset, {part_name: rows["split"].count(part_name) for part_name in splits["split"]}
        )


def _halves(rows: WildsTable, name: str) -> list[str]:
    """yes for a share of at least a half."""
    out = []
    for row, cell in enumerate(rows[name], 1):
        try:
            if cell in ("True", "False", ""):
                share = {"True": 1.0, "False": 0.0, "": 0.0}[cell]
            else:
                share = float(cell)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            problem = (
                f"{rows.where}, row {row:,}: {name} is {shown(cell)}, and not a share from 0 to 1"
            )
            raise DataError(problem)
        out.append("yes" if share >= 0.5 else "no")
    return out
