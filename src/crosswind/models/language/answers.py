"""From what a model wrote to the class that it means, by one rule; what is in doubt is no answer.
Imports no torch.

1. *Exact*: the text is one of the words that may be answered.
2. *Normalised*: it is one of them without case, quotes, markdown, punctuation at its ends, an
   article, underscores and a lead-in such as `The answer is`.
3. *Yes or no*: where these are asked for, the text begins with one of them, a `no` with punctuation
   behind it, and nothing that follows says the opposite, denies a `yes` or doubts. `No tumor is
   seen` begins with no answer, but with an article.
4. *Unique mention*: one word alone stands in the text, in the singular or plural, at the boundaries
   of words. Words inside longer words that may be answered do not count (`dress` in `mini dress`).
   All words before it are of `FRAME`, and beside it are only punctuation and words of `BEFORE` and
   `AFTER`: a hot dog is no dog, a dog house and a wolf that chases a dog neither, and a text in
   another language has no such words. Nothing in the whole text
   denies, doubts, compares or asks (`DOUBT`).

Everything else is unparsed: two words, `not a dress`, `no dress` where that is no word, refusals,
questions, letters of options.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TOKEN = re.compile(r"\d+(?:[.,]\d+)+|[^\W_]+(?:['’\-/&+][^\W_]+)*")
# A lead-in is any number of the words of the first, then one of the second.
_LEAD_WORDS = re.compile(
    r"(?:(?:the|my|final|correct|best|most|likely|predicted|suitable|appropriate|matching|single|short)\s+)*"
)
_LEAD_NOUN = re.compile(
    r"(?:answer|label|class|category|classification|prediction|response|name of the"
    r" label|assistant)"
    r"\s*(?:(?:would be|is|=|[:：])\s*[:：]?|[\n>\-–—])\s*"
)
_SIDE = r"""\s'“”‘’«»`*_#.,;:!()\[\]{}|•·。、，""" + '"'
_FIRST_EDGE = re.compile(rf"(?:[{_SIDE}]|[-–—<>~](?!\w))*")
_SIDE_MARK, _DASH, _WORD = re.compile(f"[{_SIDE}]"), frozenset("-–—<>~"), re.compile(r"\w")
_ITEMS = re.compile(r"^[-*•·]\s|(?:^|\s)\(?\w[.)]\s", re.MULTILINE)
_CROSSED = re.compile("[❌✗✘×🚫]")
_ARTICLES = ("a ", "an ", "the ")
_POLAR = ("yes", "no")
_IRREGULAR = _words(
    """glass arm good short pant new mean custom wood brief trunk tight slack jean look wing iron spectacle cloth blind water"""
)
"""Words whose plural is another thing."""

BEFORE = _words(
    """a an the one this that is are was be being it's that's this's as for with in like say show shows showing shown depict
    depicts depicting contain contains containing feature features featuring wear wears wearing see sees called named
    label labeled labelled class classified category answer answered object shape digit number animal species subject
    likely probably clearly definitely mostly actually indeed and single two three four several some many small large
    tiny young adult red green blue yellow orange purple pink white black gray grey brown cyan magenta beautiful
    simple plain choose select selected identify identified"""
)
"""Words that may stand directly before an answer."""
FRAME = BEFORE | _words(
    """land-use image picture photo photograph painting drawing scene of to best describes described correct right final most
    appropriate suitable person man woman people individual someone she he they there here based provided given from my i
    think believe would say classify sure certainly following main center centre which appears appear seems seem looks you
    it its on at by displayed displays display building type kind name word tissue site area satellite aerial view item
    piece clothing garment prediction response camera trap above below shaped i'd i'm let's see content contents fits
    matches corresponds correspond belongs belong text has have been wears can be"""
)
"""Words that may stand anywhere before an answer: with another one there, something else may be
what is named."""
AFTER = _words(
    """is are was were in on at with and that which who standing sitting lying wearing facing grazing looking visible present
    shown seen depicted pictured here because as from near against under behind beside person individual shape object
    animal label class category species"""
)
"""Words that may stand directly behind an answer."""
DOUBT = _words(
    """no not nor non none never neither nothing nobody nowhere without cannot cant can't couldn't won't dont isnt doesnt
    wasnt arent unable impossible unlikely hardly barely scarcely lack lacks lacking absent absence free negative exclude
    excluded excludes excluding ruled except unlike instead rather than other otherwise opposite contrary differ differs
    different anything far too false wrong incorrect incorrectly fail fails failed sorry apologize apologise apologies or
    either both whether versus vs if but however although though yet despite maybe perhaps possibly possible might may
    could should unsure uncertain unclear unknown ambiguous difficult hard doubt similar resemble resembles resembling
    reminiscent mistaken mistake confused confusing misclassified misidentified disguised dressed costume fake pretend
    supposed nope nah previously formerly once ago used kein keine keinen nicht nein ohne pas sans aucun aucune ni sin sem
    nunca jamás senza ingen inte niet geen nie
    unless kidding expected expect missing gone previous mind me wait hmm correction closer glance"""
)
"""Words with which a mention is no answer: they deny, doubt, compare, ask, or name what could have
been said."""
GOING_ON = _words(
    """the it it's this there there's its since based given specifically explanation reason reasoning note i my so confidence"""
)
"""Words that may follow an answer behind a comma, a dash or a line's end; with another word there
it is one of a list."""
_WEAK = re.compile(r"[\s\-–—,;|、，•·*]*")
_TOUCHING = frozenset(["", *" \n\"'“”‘’«»`*(){}[]:：。、，.,;!|"])


class Parser:
    """The rule for one list of words that may be answered. Raises `ValueError` where two of them
    are read alike."""

    def __init__(self, words: Sequence[str]) -> None:
        self._exact = {word: word_number for word_number, word in enumerate(words)}
        self._plain: dict[str, int] = {}
        for word_number, word in enumerate(words):
            if not _plain(word) or self._plain.setdefault(_plain(word), word_number) != word_number:
                raise ValueError(f"{word!r} is read as another one, or as nothing")
        self._forms: dict[tuple[str, ...], int] = {}
        own_forms = {
            form: word_number
            for word_number, word in enumerate(words)
            if (form := _tokens(word)) and form not in [(w,) for w in _POLAR]
        }
        for form, word_number in own_forms.items():
            for variant in (form, _spaced(form)):
                self._forms.setdefault(variant, word_number)
        for form, word_number in list(self._forms.items()):
            for variant in _other_numbers(form):
                self._forms.setdefault(variant, word_number)
        self._longest = max(map(len, self._forms), default=0)
        self._polar = [word for word in _POLAR if word in self._plain]

    def __call__(self, text: str) -> int | None:
        """The place of the word that the text means, None where it means none, or where that is in
        doubt."""
        if text.strip() in self._exact:
            return self._exact[text.strip()]
        low = _lowered(text)
        exact = self._plain.get(_stripped(low))
        if exact is not None:
            return exact
        if self._polar and (polar := self._yes_or_no(_bare(low))) is not None:
            return polar
        return self._mentioned(low)

    def _yes_or_no(self, bare: str) -> int | None:
        first = _TOKEN.match(bare)
        if first is None or first[0] not in self._polar or "?" in bare:
            return None
        remainder = bare[first.end() :].lstrip(" \"'”’*`")
        tokens = set(_tokens(remainder))
        if first[0] == "yes":
            return None if tokens & DOUBT or _denied(tokens) else self._plain["yes"]
        if remainder.lstrip(" .")[:1].isdigit() or tokens & _TURNS:  # `No. 1`, `No, thanks`
            return None
        if tokens & _THERE and not (
            tokens & _DENIALS or _denied(tokens)
        ):  # `No, tumor tissue is present`
            return None
        # Behind a no a denial is what is expected; what takes it back is not.
        doubts = tokens & (DOUBT - _DENIALS)
        return (
            self._plain["no"]
            if remainder[:1] in tuple(".,;:!-–—\n") and not doubts and "yes" not in tokens
            else None
        )

    def _mentioned(self, low: str) -> int | None:
        spans = [
            (match[0].replace("’", "'"), match.start(), match.end())
            for match in _TOKEN.finditer(low)
        ]
        mentions: list[tuple[int, int, int]] = []  # place, first token, token behind the last
        token_number = 0
        while token_number < len(spans):
            for size in range(min(self._longest, len(spans) - token_number), 0, -1):
                word_number = self._forms.get(
                    tuple(word for word, _, _ in spans[token_number : token_number + size])
                )
                if word_number is not None and all(
                    low[spans[i][2] : spans[i + 1][1]].strip(" ") == ""
                    for i in range(token_number, token_number + size - 1)
                ):
                    mentions.append((word_number, token_number, token_number + size))
                    token_number += size
                    break
            else:
                token_number += 1
        if (
            len({word_number for word_number, _, _ in mentions}) != 1
            or "?" in low
            or _CROSSED.search(low)
            or len(_ITEMS.findall(low)) > 1
        ):
            return None
        led = [
            word
            for word, start, end in spans[: mentions[0][1]]
            if not (end == 1 and low[end : end + 1] in tuple(".)"))
        ]
        if not FRAME.issuperset(led):
            return None
        inside = {i for _, start, end in mentions for i in range(start, end)}
        other_words = {word for i, (word, _, _) in enumerate(spans) if i not in inside}
        if other_words & DOUBT or _denied(other_words) or other_words & set(_POLAR):
            return None
        fits = all(self._stands(low, spans, start, end, inside) for _, start, end in mentions)
        return mentions[0][0] if fits else None

    @staticmethod
    def _stands(
        low: str, spans: Sequence[tuple[str, int, int]], start: int, end: int, inside: set[int]
    ) -> bool:
        """Whether a mention is alone: beside it a sentence ends, or there is a word that may stand
        there, or the same answer."""
        first, last = start == 0, end == len(spans)
        before = low[0 if first else spans[start - 1][2] : spans[start][1]]
        behind = low[spans[end - 1][2] : len(low) if last else spans[end][1]]
        if (
            before[-1:] not in _TOUCHING or behind[:1] not in _TOUCHING
        ):  # `tumor-free`, `3%`, `<3`; nothing touches at the ends
            return False
        if not last and (
            behind.lstrip(" \"'`”’)]}").startswith((":", "：")) or behind in (".", ":")
        ):
            return False  # `dress: no`, `dress.jpg`
        if behind.startswith("' ") and "'" not in before:  # `the dogs' owner`
            return False
        left = (
            first
            or start - 1 in inside
            or spans[start - 1][0] in BEFORE
            or _WEAK.fullmatch(before) is None
        )
        if [word for word, _, _ in spans[end : end + 2]] in (
            ["is", "a"],
            ["is", "an"],
        ):  # `this dress is a skirt`
            return False
        if last or end in inside or spans[end][0] in AFTER:
            return left
        weak = _WEAK.fullmatch(behind) is not None
        return left and (not weak or behind.strip(" ") != "" and spans[end][0] in GOING_ON)


_THERE = _words("present contains contain visible detected seen evident")
_TURNS = _words("mean really thanks matter question able say actually")
_DENIALS = _words(
    "no not nor non none never neither nothing without absent absence free negative lack lacks"
    " lacking"
)


def _denied(tokens: set[str]) -> bool:
    return any(token.endswith("n't") for token in tokens)


def _lowered(text: str) -> str:
    """In one case and composition, with plain apostrophes and without marks of emphasis."""
    low = (
        unicodedata.normalize("NFKC", _with_few_marks(text))
        .casefold()
        .replace("’", "'")
        .replace("\r", "\n")
    )
    bare = low.replace("**", "").replace("__", "").replace("_", " ")
    return _SPACE.sub(_one_break, bare).strip()


_SPACE = re.compile(r"\s+")
_MOST_MARKS = 30
"""Marks above one letter from which on they are set apart: of Unicode Standard Annex 15,
Stream-Safe Text Format."""


def _with_few_marks(text: str) -> str:
    """A text with a joiner in each longer run of accents, which composing would sort in the square
    of its length."""
    if text.isascii():
        return text
    pieces, run, start = list[str](), 0, 0
    for position, letter in enumerate(text):
        run = run + 1 if unicodedata.combining(letter) else 0
        if run > _MOST_MARKS:
            pieces += [text[start:position], "\u034f"]
            start, run = position, 1
    return "".join([*pieces, text[start:]])


def _one_break(space: re.Match[str]) -> str:
    """White space with a line's end in it is that alone."""
    return "\n" if "\n" in space[0] else space[0]


def _bare(low: str) -> str:
    """Without a lead-in, and without quotes and punctuation at the beginning."""
    if low.startswith("-") or not low:
        inner = low.lstrip("- ")
    else:
        start, end = _edges(low, 0, len(low))
        inner = low[start:end]
    led = inner[_lead_end(inner, 0, len(inner)) :]
    return re.sub(r"^[\s\"'“”‘«`*#>(\[{]+", "", led)


def _plain(text: str) -> str:
    """The normal form of a whole text or of a word."""
    return _stripped(_lowered(text))


def _stripped(low: str) -> str:
    """The normal form of a text that is lowered.

    Edges, a lead-in and an article are taken off until none is left. Only the two ends of what is
    left move, so that a text that is all articles takes no more than its length: an endpoint may
    send megabytes of them.
    """
    start, end = _edges(low, 0, len(low))
    start = _lead_end(low, start, end)
    low = " ".join(low[start:end].split())
    start, end, words_end = _article_end(low, 0, len(low)), len(low), 0
    while True:
        first, last = _edges(low, start, end)
        # Words of a lead-in that were looked through lead to the same noun from any of them.
        words_end = words_end if first < words_end else _LEAD_WORDS.match(low, first, last).end()  # type: ignore[union-attr]
        noun = _LEAD_NOUN.match(low, words_end, last)
        first = noun.end() if noun else first
        first = _article_end(low, first, last)
        if (first, last) == (start, end):
            return re.sub(r"(?<=\w)-(?=\w)", " ", low[start:end])
        start, end = first, last


def _edges(low: str, start: int, end: int) -> tuple[int, int]:
    """Where what is left begins and ends without the punctuation at its ends."""
    first = _FIRST_EDGE.match(low, start, end).end()  # type: ignore[union-attr]  # it matches nothing, too
    last = end
    while last > first and _is_last_edge(low, start, last - 1):
        last -= 1
    return first, last


def _is_last_edge(low: str, start: int, position: int) -> bool:
    if _SIDE_MARK.match(low[position]):
        return True
    return low[position] in _DASH and (position == start or _WORD.match(low[position - 1]) is None)


def _lead_end(low: str, start: int, end: int) -> int:
    """Where a lead-in at the beginning ends; the beginning where there is none."""
    words = _LEAD_WORDS.match(low, start, end)
    noun = _LEAD_NOUN.match(low, words.end(), end) if words else None
    return noun.end() if noun else start


def _article_end(low: str, start: int, end: int) -> int:
    """Where the word behind an article begins; the beginning where there is no article, or nothing
    behind it."""
    article = next((word for word in _ARTICLES if low.startswith(word, start, end)), "")
    return start + len(article)


def _tokens(text: str) -> tuple[str, ...]:
    return tuple(match.replace("’", "'") for match in _TOKEN.findall(_lowered(text)))


def _spaced(form: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(token_part for token in form for token_part in token.split("-"))


def _other_numbers(form: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The plural of a word, and the singular of one that is a plural."""
    *words_before, last = form
    if (
        len(last) < 3
        or not last.isalpha()
        or not last.isascii()
        or last in _IRREGULAR
        or last.removesuffix("s") in _IRREGULAR
    ):
        return []
    if last.endswith(("s", "x", "z", "ch", "sh")) and not last.endswith("s") or last.endswith("ss"):
        other_forms = [last + "es"]
    elif last.endswith("s"):
        other_forms = (
            [last[:-1]] if len(last) > 4 and not last.endswith(("us", "is", "as", "os")) else []
        )
    elif last.endswith("y") and last[-2] not in "aeiou":
        other_forms = [last[:-1] + "ies"]
    else:
        other_forms = [last + "s"]
    return [(*words_before, word) for word in other_forms]
