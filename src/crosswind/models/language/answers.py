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
   `AFTER`. A hot dog is no dog, a dog house and a wolf that chases a dog neither, and a text in
   another language has no such words. Nothing in the whole text denies, doubts, compares or asks
   (`DOUBT`).

Everything else is unparsed: two words, `not a dress`, `no dress` where that is no word, refusals,
questions, letters of options.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple


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
            if tokens & DOUBT or _denied(tokens):
                return None
            return self._plain["yes"]
        if remainder.lstrip(" .")[:1].isdigit() or tokens & _TURNS:  # `No. 1`, `No, thanks`
            return None
        if tokens & _THERE and not (
            tokens & _DENIALS or _denied(tokens)
        ):  # `No, tumor tissue is present`
            return None
        # Behind a no a denial is what is expected; what takes it back is not.
        doubts = tokens & (DOUBT - _DENIALS)
        if remainder[:1] in tuple(".,;:!-–—\n") and not doubts and "yes" not in tokens:
            return self._plain["no"]
        return None

    def _mentioned(self, low: str) -> int | None:
        """The only word that a longer text mentions, where each mention stands as an answer."""
        tokens = _located_tokens(low)
        mentions = self._mentions(low, tokens)
        if len({mention.word_number for mention in mentions}) != 1 or _asks_or_lists(low):
            return None
        if not FRAME.issuperset(_words_before(low, tokens[: mentions[0].start])):
            return None
        inside = {i for mention in mentions for i in range(mention.start, mention.end)}
        other_words = {token.word for i, token in enumerate(tokens) if i not in inside}
        if other_words & DOUBT or _denied(other_words) or other_words & set(_POLAR):
            return None
        fits = all(_stands_alone(low, tokens, mention, inside) for mention in mentions)
        return mentions[0].word_number if fits else None

    def _mentions(self, low: str, tokens: Sequence[Token]) -> list[Mention]:
        """Where the words are mentioned, the longest first, in forms of tokens that only spaces
        part."""
        mentions = []
        start = 0
        while start < len(tokens):
            for size in range(min(self._longest, len(tokens) - start), 0, -1):
                end = start + size
                form = tuple(token.word for token in tokens[start:end])
                word_number = self._forms.get(form)
                if word_number is not None and _parted_by_spaces(low, tokens[start:end]):
                    mentions.append(Mention(word_number, start, end))
                    start = end
                    break
            else:
                start += 1
        return mentions


class Token(NamedTuple):
    """A word of a text, and where it begins and ends there."""

    word: str
    start: int
    end: int


class Mention(NamedTuple):
    """The place of a word in its list, its first token, and the token behind its last."""

    word_number: int
    start: int
    end: int


def _located_tokens(low: str) -> list[Token]:
    tokens = []
    for match in _TOKEN.finditer(low):
        tokens.append(Token(match[0].replace("’", "'"), match.start(), match.end()))
    return tokens


def _parted_by_spaces(low: str, tokens: Sequence[Token]) -> bool:
    """Whether nothing but spaces stands between tokens that follow each other."""
    return all(
        low[token.end : following.start].strip(" ") == ""
        for token, following in itertools.pairwise(tokens)
    )


def _asks_or_lists(low: str) -> bool:
    """Whether a text asks, crosses out, or lists several items."""
    return "?" in low or bool(_CROSSED.search(low)) or len(_ITEMS.findall(low)) > 1


def _words_before(low: str, tokens: Sequence[Token]) -> list[str]:
    """The words of tokens, without the letter or digit of an item such as `A.` or `1)`."""
    words = []
    for token in tokens:
        is_item = token.end == 1 and low[1:2] in tuple(".)")
        if not is_item:
            words.append(token.word)
    return words


def _stands_alone(low: str, tokens: Sequence[Token], mention: Mention, inside: set[int]) -> bool:
    """Whether a mention is alone: beside it a sentence ends, or there is a word that may stand
    there, or the same answer. `inside`: the numbers of the tokens of mentions."""
    start = mention.start
    end = mention.end
    first = start == 0
    last = end == len(tokens)
    before = low[0 if first else tokens[start - 1].end : tokens[start].start]
    behind = low[tokens[end - 1].end : len(low) if last else tokens[end].start]
    if _is_touched(before, behind) or (not last and _leads_on(behind)):
        return False
    following = [token.word for token in tokens[end : end + 2]]
    if following in (["is", "a"], ["is", "an"]):  # `this dress is a skirt`
        return False
    is_free_before = first or start - 1 in inside or tokens[start - 1].word in BEFORE
    if not is_free_before and _WEAK.fullmatch(before):
        return False
    if last or end in inside or tokens[end].word in AFTER:
        return True
    return _goes_on(behind, tokens[end].word)


def _goes_on(behind: str, next_word: str) -> bool:
    """Whether a text may go on behind a mention with a word that is no usual one."""
    if _WEAK.fullmatch(behind) is None:
        return True
    return behind.strip(" ") != "" and next_word in GOING_ON


def _is_touched(before: str, behind: str) -> bool:
    """Whether a mention is a piece of something longer, by what stands directly beside it."""
    # `tumor-free`, `3%`, `<3`; nothing touches at the ends.
    if before[-1:] not in _TOUCHING or behind[:1] not in _TOUCHING:
        return True
    return behind.startswith("' ") and "'" not in before  # `the dogs' owner`


def _leads_on(behind: str) -> bool:
    """Whether something is named behind a mention, as in `dress: no` and `dress.jpg`."""
    return behind in (".", ":") or behind.lstrip(" \"'`”’)]}").startswith((":", "："))


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
    pieces = list[str]()
    run = 0
    start = 0
    for position, letter in enumerate(text):
        run = run + 1 if unicodedata.combining(letter) else 0
        if run > _MOST_MARKS:
            pieces += [text[start:position], "\u034f"]
            start = position
            run = 1
    return "".join([*pieces, text[start:]])


def _one_break(space: re.Match[str]) -> str:
    """White space with a line's end in it is that alone."""
    if "\n" in space[0]:
        return "\n"
    return space[0]


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
    start = _article_end(low, 0, len(low))
    end = len(low)
    words_end = 0
    while True:
        first, last = _edges(low, start, end)
        # Words of a lead-in that were looked through lead to the same noun from any of them.
        words_end = words_end if first < words_end else _LEAD_WORDS.match(low, first, last).end()  # type: ignore[union-attr]
        noun = _LEAD_NOUN.match(low, words_end, last)
        first = noun.end() if noun else first
        first = _article_end(low, first, last)
        if (first, last) == (start, end):
            return re.sub(r"(?<=\w)-(?=\w)", " ", low[start:end])
        start = first
        end = last


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
    noun = None
    if words:
        noun = _LEAD_NOUN.match(low, words.end(), end)
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
        if len(last) > 4 and not last.endswith(("us", "is", "as", "os")):
            other_forms = [last[:-1]]
        else:
            other_forms = []
    elif last.endswith("y") and last[-2] not in "aeiou":
        other_forms = [last[:-1] + "ies"]
    else:
        other_forms = [last + "s"]
    return [(*words_before, word) for word in other_forms]
