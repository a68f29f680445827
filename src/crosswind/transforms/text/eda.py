"""EDA: a text is changed by one of four simple edits of its words (Wei and Zou 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.transforms.base import Transform
from crosswind.transforms.text.draws import Draws, edits
from crosswind.transforms.text.synonyms import Synonyms, is_stop_word, provider

OPERATIONS = ("replace", "insert", "swap", "delete")
"""The four edits, by the names of their rates."""


@final
@register("eda", kind="text-transform")
@dataclass(frozen=True)
class EDA(Transform):
    """Easy data augmentation: one of four edits of words, each equally likely for every copy of a
    text.

    With n = max(1, floor(rate x length), at the edit's own rate:
    replace: n random words become one of their synonyms each, at random;
    insert: n times, a random synonym of a random word of the text enters at a random place, the
    ends included;
    swap: n times, the tokens at two random places change places;
    delete: every token goes with probability rate; if all would go, a random one stays.
    A rate of 0 takes its edit out of the draw. Words that are replaced, and whose synonyms are
    inserted, are no stop words and have a synonym; a text without such words stays as it is under
    these two edits. A synonym of several words enters as several tokens, and takes the capitals of
    the word that it stands for.

    Facts by the paper (section 2) and its code (jasonwei20/eda_nlp, code/eda.py). That code
    deviates from the paper: it inserts the first synonym of a set, also of a stop word, and never
    at the end; here the paper holds. Ours: the edit is drawn for each copy, where the code deals
    out equal numbers of each. Where a word stands several times in a text, the code replaces all of
    them and counts one, here each place counts. Two swapped places always differ. Text is not
    brought to lower case. With all rates 0.1, the defaults, it is the transform of NI-EDA (Ng et
    al. 2022, appendix A.5).
    """

    takes = "text"

    replace: float = knob(
        0.1, domain="[0, 1]", source="eda_nlp", doc="Rate of synonym replacement."
    )
    insert: float = knob(0.1, domain="[0, 1]", source="eda_nlp", doc="Rate of random insertion.")
    swap: float = knob(0.1, domain="[0, 1]", source="eda_nlp", doc="Rate of random swap.")
    delete: float = knob(
        0.1, domain="[0, 1]", source="eda_nlp", doc="Probability of deletion of each token."
    )
    synonyms: str | Synonyms = knob(
        "bundled",
        doc=(
            "Where synonyms come from: bundled, the path of a folder with the files of WordNet, or"
            " in Python a provider."
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.synonyms, str) and not isinstance(self.synonyms, Synonyms):
            raise InputError(
                f"{self.title}.synonyms",
                f"must be text or have a method of(word), not {self.synonyms!r}",
            )

    def apply(self, texts: list[list[str]], keys: NDArray[np.uint64]) -> list[list[str]]:
        """See the class."""
        return [
            self._edited(tokens, draws) if tokens else []
            for tokens, draws in zip(texts, Draws.of(keys), strict=True)
        ]

    def _edited(self, tokens: list[str], draws: Draws) -> list[str]:
        at_work = [name for name in OPERATIONS if getattr(self, name) > 0]
        if not at_work:
            return tokens
        name = at_work[draws.below(len(at_work))]
        count = edits(getattr(self, name), len(tokens))
        if name == "replace":
            return _replaced(tokens, count, provider(self.synonyms), draws)
        if name == "insert":
            return _inserted(tokens, count, provider(self.synonyms), draws)
        if name == "swap":
            return _swapped(tokens, count, draws)
        return _deleted(tokens, self.delete, draws)


def eda(
    tokens: Sequence[str],
    key: int,
    *,
    replace: float = 0.1,
    insert: float = 0.1,
    swap: float = 0.1,
    delete: float = 0.1,
    synonyms: str | Synonyms = "bundled",
) -> list[str]:
    """One text by `EDA`: a new list of tokens, decided by the arguments alone; not empty unless
    `tokens` is.

    `key`: a whole number, of which the lower 64 bits count; copies of one text take different ones.
    Rates in [0, 1]. Raises `InputError`.
    """
    return EDA(replace, insert, swap, delete, synonyms)(
        [tokens], np.array([key & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)
    )[0]


def _replaced(tokens: list[str], count: int, synonyms: Synonyms, draws: Draws) -> list[str]:
    chosen: dict[int, list[str]] = {}
    # In random order until enough words with synonyms are found: most words of a long text need not
    # be looked up.
    for position in draws.distinct(len(tokens), len(tokens)):
        if len(chosen) == count:
            break
        alternatives = _synonyms(tokens[position], synonyms)
        if alternatives:
            chosen[position] = _spelled(
                alternatives[draws.below(len(alternatives))], tokens[position]
            )
    return [word for position, token in enumerate(tokens) for word in chosen.get(position, [token])]


def _inserted(tokens: list[str], count: int, synonyms: Synonyms, draws: Draws) -> list[str]:
    replaceable = [
        (token, alternatives) for token in tokens if (alternatives := _synonyms(token, synonyms))
    ]
    # A synonym of several words is one item until all are in: an insertion may not fall into the
    # middle of another.
    inserted_after = [[token] for token in tokens]
    for _ in range(count if replaceable else 0):
        token, alternatives = replaceable[draws.below(len(replaceable))]
        new_word = _spelled(alternatives[draws.below(len(alternatives))], token)
        inserted_after.insert(draws.below(len(inserted_after) + 1), new_word)
    return [word for new_word in inserted_after for word in new_word]


def _swapped(tokens: list[str], count: int, draws: Draws) -> list[str]:
    for _ in range(count if len(tokens) > 1 else 0):
        first, second = draws.distinct(2, len(tokens))
        tokens[first], tokens[second] = tokens[second], tokens[first]
    return tokens


def _deleted(tokens: list[str], rate: float, draws: Draws) -> list[str]:
    remaining = [token for token in tokens if draws.uniform() >= rate]
    return remaining or [tokens[draws.below(len(tokens))]]


def _synonyms(token: str, synonyms: Synonyms) -> Sequence[str]:
    if is_stop_word(token):
        return ()
    return synonyms.of(token.lower())


def _spelled(synonym: str, token: str) -> list[str]:
    """The words of a synonym with the capitals of the token: "Big" gives "Large", "BIG" gives
    "LARGE"."""
    if token.isupper() and len(token) > 1:
        synonym = synonym.upper()
    elif token[:1].isupper():
        synonym = synonym[:1].upper() + synonym[1:]
    return synonym.split() or [
        token
    ]  # nothing at all, as a provider of somebody else may answer, would empty a text
