"""Reviews with stars: of Amazon's products by category, and of drugs."""

from __future__ import annotations

import csv
import hashlib
import heapq
import html
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError, shown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.sources.base import PreparedSource, Reading, names_chosen, original_file
from crosswind.data.sources.packed_texts import joined, lines_of, of_texts, record_of
from crosswind.data.sources.packed_trees import Packed

STARS = tuple("12345")
FILES = {
    "books": "Books_5.json.gz",
    "clothing": "Clothing_Shoes_and_Jewelry_5.json.gz",
    "home": "Home_and_Kitchen_5.json.gz",
    "kindle": "Kindle_Store_5.json.gz",
    "movies": "Movies_and_TV_5.json.gz",
    "pets": "Pet_Supplies_5.json.gz",
    "sports": "Sports_and_Outdoors_5.json.gz",
    "tech": "Electronics_5.json.gz",
    "tools": "Tools_and_Home_Improvement_5.json.gz",
    "toys": "Toys_and_Games_5.json.gz",
}


@register("amazon-reviews", kind="source")
@dataclass(frozen=True)
class AmazonReviews(PreparedSource):
    """Amazon reviews of 2018 in the ten categories of Ng et al. 2022, with one to five stars.

    Attributes: `stars`, `category` (books, clothing, home, kindle, movies, pets, sports, tech,
    tools, toys). Of each category's reviews with a text, `rows` are taken: those whose lines hash
    least, so that the choice is by chance and always the same; null takes all. How the authors
    chose theirs is not published. A product is a unit. Layout: the 5-core files, one JSON object a
    line with `overall`, `reviewText` and `asin`.
    Reference: J. Ni, J. Li, J. McAuley, Justifying Recommendations using Distantly-Labeled Reviews
    and Fine-Grained Aspects, EMNLP 2019.
    """

    categories: list[str] | None = knob(None, doc="which categories are read; all ten by default")
    rows: int | None = knob(25_000, domain="[1, inf)", doc="most reviews of a category; null: all")

    card = card_of("amazon-reviews")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.categories is not None:
            categories = names_chosen(
                self.categories, "amazon-reviews.categories", "category", FILES
            )
            chosen = [
                name for name in FILES if name in categories
            ]  # one order, so that the same choice is the same copy
            object.__setattr__(self, "categories", None if len(chosen) == len(FILES) else chosen)

    def variants(self) -> tuple[str, ...]:
        """The categories: each has a file."""
        return tuple(FILES if self.categories is None else self.categories)

    def read(self, folder: Path) -> Reading:
        """The reviews by category, each in the order of its file."""
        columns: dict[str, list[str]] = {"stars": [], "category": []}
        texts: list[str] = []
        units: list[str] = []
        reviews_of = {}
        for category in self.variants():
            path = original_file(folder, FILES[category])
            before = len(texts)
            for _, stars, text, product in _chosen(path, self.rows):
                columns["stars"].append(stars)
                columns["category"].append(category)
                texts.append(joined([text]))
                units.append(product)
            reviews_of[category] = len(texts) - before
            if not reviews_of[category]:
                raise DataError(f"{path} holds no review with a text")
        values = {"stars": STARS, "category": self.variants()}
        values_and_cells = {name: (values[name], cells) for name, cells in columns.items()}
        return Reading(of_texts("amazon-reviews", values_and_cells, texts, units), reviews_of)


_Review = tuple[int, str, str, str]


def _chosen(path: Path, most_rows: int | None) -> list[_Review]:
    """Line, stars, text and product of the reviews with a text whose lines hash least, in the order
    of the file."""
    least_hashes: list[tuple[int, int, _Review]] = []  # a heap, the largest hash first
    for number, line in enumerate(lines_of(path), 1):
        rank = -int.from_bytes(hashlib.blake2b(line, digest_size=8).digest())
        if most_rows is not None and len(least_hashes) == most_rows and rank <= least_hashes[0][0]:
            continue
        review = None
        if line.strip():
            review = _review(line, number, f"{path}, line {number:,}")
        if review is None:
            continue
        entry = (rank, -number, review)
        if most_rows is not None and len(least_hashes) == most_rows:
            heapq.heapreplace(least_hashes, entry)
        elif most_rows is not None:
            heapq.heappush(least_hashes, entry)
        else:
            least_hashes.append(entry)
    return sorted(review for _, _, review in least_hashes)


def _review(line: bytes, number: int, where: str) -> _Review | None:
    record = record_of(line, where)
    text = record.get("reviewText")
    stars = record.get("overall")
    product = record.get("asin")
    if text is None or (isinstance(text, str) and not text.strip()):
        return None  # some have stars and pictures alone
    if not isinstance(text, str) or stars not in (1, 2, 3, 4, 5) or not isinstance(product, str):
        problem = (
            f"{where} is no review: 'overall' is {shown(stars)}, 'asin' is {shown(product)},"
            f" 'reviewText' {shown(text, 40)}"
        )
        raise DataError(problem)
    return number, str(int(stars)), text.encode(errors="replace").decode(), product


@register("drugs.com", kind="source")
@dataclass(frozen=True)
class Drugs(Packed):
    """Drugs.com reviews: 215,063 reviews of drugs by patients, rated 1 to 10.

    Attributes: `stars` (1 to 5: half the rating, rounded up; ours, for the paper gives no rule),
    `rating` (1 to 10), `split` (train, test). HTML entities are resolved. Many a review stands
    there twice, under two names of its drug: rows of one and the same text have one role. Layout:
    `drugsComTrain_raw.tsv` and `drugsComTest_raw.tsv`, alone or in the zip.
    Reference: F. Gräßer, S. Kallumadi, H. Malberg, S. Zaunseder, Aspect-Based Sentiment Analysis of
    Drug Reviews Applying Cross-Domain and Cross-Data Learning, Digital Health 2018.
    """

    card = card_of("drugs.com")
    instead = ("drugsComTrain_raw.tsv", "drugsComTest_raw.tsv")

    def read(self, folder: Path) -> Reading:
        """The training rows, then those for testing."""
        tree = self.tree(folder)
        names = {
            part_name: f"drugsCom{part_name.title()}_raw.tsv"
            for part_name in self.card.attributes["split"]
        }
        lists = self.lists(folder, tree, names.values())
        cells: dict[str, list[str]] = {"stars": [], "rating": [], "split": []}
        texts: list[str] = []
        rows_of_part = dict.fromkeys(names, 0)
        for part_name, name in names.items():
            table_columns, inside = lists[name]
            where = f"{table_columns.name}: {inside}"
            for row, (rating, text) in enumerate(
                _drug_rows(table_columns.read(inside, 1 << 30), where), 1
            ):
                stars = rating.removesuffix(".0")
                if stars not in map(str, range(1, 11)):
                    problem = (
                        f"{where}, row {row:,}: rating is {shown(rating)}, and not one of 1 to 10"
                    )
                    raise DataError(problem)
                cells["stars"].append(str(-(-int(stars) // 2)))
                cells["rating"].append(stars)
                cells["split"].append(part_name)
                texts.append(joined([text]))
                rows_of_part[part_name] += 1
        values = {"stars": STARS, "rating": tuple(map(str, range(1, 11))), "split": tuple(names)}
        columns = {name: (values[name], cells[name]) for name in cells}
        dataset = of_texts("drugs.com", columns, texts)
        return Reading(dataset, rows_of_part)


def _drug_rows(data: bytes, where: str) -> Iterator[tuple[str, str]]:
    """Rating and review of every row. Raises `DataError`."""
    try:
        rows = csv.reader(
            io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline=""), delimiter="\t", strict=True
        )
        names = next(rows, [])
        if not {"rating", "review"} <= set(names):
            raise DataError(
                f"{where} has no columns 'rating' and 'review', but {shown(', '.join(names), 200)}"
            )
        rating = names.index("rating")
        review = names.index("review")
        for number, row in enumerate(rows, 1):
            if len(row) != len(names):
                problem = f"{where}, row {number:,} has {len(row)} cells, not {len(names)}"
                raise DataError(problem)
            text = html.unescape(_QUOTED.sub(r"\1", row[review])).strip()
            if not text:
                raise DataError(f"{where}, row {number:,} has no review")
            yield row[rating], text
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{where} is no table in UTF-8 with tabs: {error}") from None


_QUOTED = re.compile(r'^\s*"(.*)"\s*$', re.DOTALL)
"""Reviews stand in quotes within those of the table."""
