"""Which texts are one value to a person: surely, because they look alike whatever bytes they are,
or perhaps.

Surely one are texts that differ by how accents are composed, by characters that nobody sees, by
white space, and truths that differ by capitals. Perhaps one are texts that differ by capitals, by
dashes, apostrophes and quotes, or by how a number is written. So are those that differ by forms of
one character: full width, ligatures, letters of other alphabets that look alike. Only a person
knows that.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import counted

if TYPE_CHECKING:
    from polars import Series

TRUTHS = frozenset({"true", "false"})
"""Words that are truths wherever they stand, in lower case."""
ANSWERS = (frozenset({"yes", "no"}), frozenset({"on", "off"}))
"""Words that are truths where a column holds nothing else."""
ALPHABET = 12
"""A column of at least so many single characters is about characters: a and A are two."""
NO_NUMBERS = ("na", "n/a", "none", "?", "-", ".", "missing", "unknown")
"""What stands for a missing number; in columns of words some of these are values."""
_TRUE, _FALSE = ("true", "yes", "on", "1", "t", "y"), ("false", "no", "off", "0", "f", "n")
_MEANT = dict.fromkeys(_TRUE, "true") | dict.fromkeys(_FALSE, "false")
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a]"
)
"""Characters that take no place: Unicode's default ignorable ones, without joiners and the tags
that flags are made of."""
_IDLE_JOINERS = re.compile("(?<![^\0-\u058f])[\u200c\u200d]|[\u200c\u200d](?![^\0-\u058f])")
"""Joiners beside letters that they do not change; of Arabic, Indic scripts and emoji they change
how signs look."""
_HIDDEN = re.compile("[\u200c\u200d\U000e0000-\U000e0fff]")
_LETTERS = str.maketrans(
    "аеорсухіјѕԁһӏԛԝАВЕКМНОРСТУХІЈЅԌԚԜαοινκρτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
    "aeopcyxijsdhlqwABEKMHOPCTYXIJSGQWaoivkptuxABEZHIKMNOPTYX",
)
"""Cyrillic and Greek letters that look like Latin ones."""
_SIGNS = str.maketrans(
    dict.fromkeys("‐‑‒–—―−﹘﹣⁃", "-")
    | dict.fromkeys('‘’‛ʼʹ′`´ˈ“”„‟″«»"', "'")
    | {
        "×": "x",
        "⁄": "/",
        "∕": "/",
    }
)
"""Dashes, apostrophes and quotes."""
_BETWEEN_WORDS = re.compile(r"(?<=[^\W\d_])[-_ ]+(?=[^\W\d_])")
_ZEROS = re.compile(r"(?<![\d.,])0+(?=\d)")
_RUN, _LETTER = re.compile(r"\d+"), re.compile(r"[^\W\d_]")
_NUMBER = re.compile(r"([+-]?)(\d+)(?:[.,](\d*))?")


def clean(text: str) -> str:
    """A text as a person sees it: accents composed, nothing that is not seen, single spaces and
    none around it."""
    if not text.isascii():
        text = _IDLE_JOINERS.sub("", _UNSEEN.sub("", text))
        text = unicodedata.normalize("NFC", text)
    return " ".join(text.split())


def look_of(text: str) -> str:
    """The form that all texts share that are surely one value with a text."""
    clean_text = clean(text)
    if clean_text.casefold() in TRUTHS:
        return clean_text.casefold()
    return clean_text


def perhaps(text: str) -> tuple[str, str]:
    """The forms that all texts share that may be one value with a text: one of the two, by letters
    or by how they look."""
    clean_text = clean(text)
    if clean_text.isascii():
        return (_plain(clean_text),) * 2
    clean_text = unicodedata.normalize("NFKC", _HIDDEN.sub("", clean_text))
    return _plain(clean_text), _plain(clean_text.translate(_LETTERS))


def _plain(text: str) -> str:
    folded = text.casefold().translate(_SIGNS).strip("' ")
    number = _NUMBER.fullmatch(folded)
    if number is None:
        # Names of base 16 have zeros anywhere: a zero is style in the one number of a name, or
        # between signs.
        style = len(_RUN.findall(folded)) == 1 or not _LETTER.search(folded)
        words = _BETWEEN_WORDS.sub(" ", folded)
        if style:
            return _ZEROS.sub("", words)
        return words
    whole_digits = number[2].lstrip("0") or "0"
    fraction = (number[3] or "").rstrip("0")
    value = f"{whole_digits}.{fraction}" if fraction else whole_digits
    if value == "0" or number[1] != "-":
        return value
    return f"-{value}"


@final
@dataclass(frozen=True)
class Spellings:
    """The spellings of a column: which different texts are one value to a person.

    `names`: every text that is not a value as it stands, and the value that it surely is; empty
    where each is its own. `doubts`: values that may be one, in groups of two or more, each group in
    order.
    """

    names: Mapping[str, str]
    doubts: tuple[tuple[str, ...], ...]

    def said(self, column: str) -> str:
        """A sentence on the texts that are made one, "" for none."""
        groups: dict[str, list[str]] = defaultdict(list)
        for text, name in self.names.items():
            groups[name].append(text)
        sentences = [
            f"{_listed(shown_apart([*texts, name]))} are one value"
            for name, texts in groups.items()
        ]
        more_values = ""
        if len(sentences) > 3:
            more_values = f", and {len(sentences) - 3} values more that are written in several ways"
        if sentences:
            return f"attribute {column}: {'; '.join(sentences[:3])}{more_values}"
        return ""


NONE = Spellings({}, ())


@final
@dataclass(frozen=True)
class UnitDoubts:
    """Values of a column of units that may be one: the column, the groups, and the unit of each of
    their values."""

    column: str
    groups: tuple[tuple[str, ...], ...]
    units: Mapping[str, int]


def spellings_of(distinct: Sequence[str]) -> Spellings:
    """The spellings among some different texts. For the many of a column that has a value a row see
    `spellings_of_series`."""
    folded = {text: clean(text) for text in distinct}
    lower = {name.casefold() for name in folded.values()}
    truths = TRUTHS.union(*(words for words in ANSWERS if lower <= words))
    capitals = Counter(name.casefold() for name in set(folded.values()))
    for text, name in folded.items():
        if name.casefold() in truths and capitals[name.casefold()] > 1:
            folded[text] = name.casefold()
    groups: dict[str, list[str]] = defaultdict(list)
    for text, name in folded.items():
        groups[name].append(text)
    # A value that is written in one way keeps it, whatever it is: nothing changes for the table
    # that has it.
    names = {
        text: name
        for name, texts in groups.items()
        if len(texts) > 1
        for text in texts
        if text != name
    }
    values = [name if len(texts) > 1 else texts[0] for name, texts in groups.items()]
    return Spellings(names, _doubts(values))


def mixed_truths(values: Sequence[str]) -> dict[str, str]:
    """Each of some different texts as 1 or 0 where they are truths in more ways than one, such as
    TRUE and FALSE beside 1 and 0; empty for any others."""
    lower = {value.casefold() for value in values}
    spelled_out = lower & {"true", "false", "yes", "no"}
    if len(lower) < 3 or not spelled_out or not lower <= _MEANT.keys():
        return {}
    if len({_MEANT[word] for word in lower}) < 2:
        return {}
    return {value: "1" if _MEANT[value.casefold()] == "true" else "0" for value in values}


def as_values(
    column: str, names: Sequence[str]
) -> tuple[tuple[str, ...], NDArray[np.int64], tuple[tuple[str, str], ...]]:
    """Different names as values, those that are surely one made one: the values, the value of each
    name, and what is said of it."""
    spellings = spellings_of(names)
    value_of_name = [spellings.names.get(name, name) for name in names]
    values = tuple(dict.fromkeys(value_of_name))
    if spellings.names:
        codes = np.array([values.index(value) for value in value_of_name], dtype=np.int64)
    else:
        codes = np.arange(len(value_of_name))
    return values, codes, ((column, sentence),) if (sentence := spellings.said(column)) else ()


def spellings_of_series(texts: Series) -> Spellings:
    """The spellings among the different texts of a column, of which there may be a million: only
    those that are nearly alike are looked at."""
    distinct = texts.unique().drop_nulls()
    if len(distinct) <= 200:
        return spellings_of(distinct.sort().to_list())
    rough = (
        distinct.str.to_lowercase()
        .str.replace_all(r"\.0+$|[^0-9a-z.]", "")
        .str.replace_all(r"(\.[0-9]*[1-9])0+$", "$1")
        .str.replace_all(r"(^|[^0-9])0+([0-9])", "$1$2")
        .str.replace_all(".", "", literal=True)
    )
    foreign = distinct.str.len_bytes() != distinct.str.len_chars()
    beside = {_rough(key) for text in distinct.filter(foreign).to_list() for key in perhaps(text)}
    alike = distinct.filter(foreign | rough.is_duplicated() | rough.is_in(list(beside))).sort()
    if not len(alike):
        return NONE
    return spellings_of(alike.to_list())


def shown_apart(texts: Iterable[str]) -> list[str]:
    """Texts as errors quote them: those that look alike show what tells them apart, as Python
    escapes it."""
    distinct_texts = list(dict.fromkeys(texts))
    looks = [clean(text) for text in distinct_texts]
    return [
        repr(text) if looks.count(look) < 2 or text.isascii() else ascii(text)
        for text, look in zip(distinct_texts, looks, strict=True)
    ]


def refusal(doubts: Sequence[Sequence[str]], column: str) -> str:
    """The sentence on values that may be one, with the entries that say which."""
    first = doubts[0]
    more_pairs = ""
    if len(doubts) > 1:
        more_pairs = f" (and {counted(len(doubts) - 1, 'more such pair')})"
    name = first[0]
    other_spellings = ", ".join(map(_quoted, first[1:]))
    entry = f"same: {{{column}: {{{_quoted(name)}: [{other_spellings}]}}}}"
    values = _listed(shown_apart(first))
    return (
        f"{values} of {column!r} may be one value{more_pairs}: say {entry} where they are, and"
        f" distinct: [{column}] where they are not"
    )


def _quoted(value: str) -> str:
    if value.isascii() and '"' not in value:
        return f'"{value}"'
    return f'"{value.encode("unicode_escape").decode()}"'


def _listed(words: Sequence[str]) -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _doubts(values: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Groups of values that may be one."""
    if len(values) >= ALPHABET and all(len(value) == 1 for value in values):
        return ()
    lower = {value.casefold() for value in values}
    answers = lower.difference(NO_NUMBERS)
    of_truths = all(_truth(value) for value in answers)
    truths = of_truths and bool(answers & {"true", "false", "yes", "no"})
    above: dict[str, str] = {}

    def root(key: str) -> str:
        while above.setdefault(key, key) != key:
            key = above[key]
        return key

    keys_of = {}
    for value in values:
        truth = _truth(value.casefold()) if truths else ""
        keys_of[value] = (truth, truth) if truth else perhaps(value)
    for by_letters, by_looks in keys_of.values():
        above[root(by_letters)] = root(by_looks)
    groups: dict[str, list[str]] = defaultdict(list)
    for value, (key, _) in keys_of.items():
        groups[root(key)].append(value)
    return tuple(sorted(tuple(sorted(group)) for group in groups.values() if len(group) > 1))


def _truth(value: str) -> str:
    """Whether a value in lower case means true or false where a column has only truths, 1.0 as 1
    does; empty where it means neither."""
    return _MEANT.get(value) or _MEANT.get(_plain(value), "")


def _rough(key: str) -> str:
    return re.sub(r"[^0-9a-z]", "", re.sub(r"(^|[^0-9])0+([0-9])", r"\1\2", key))
