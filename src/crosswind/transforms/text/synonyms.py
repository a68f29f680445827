"""Where synonyms come from: a bundled lexicon of everyday English, or the files of WordNet; and
words that have none to use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol, final, runtime_checkable

from crosswind.core.errors import DataError
from crosswind.core.files import read_at_most

LEXICON = Path(__file__).with_name("lexicon.txt")
PARTS = ("noun", "verb", "adj", "adv")
MOST_BYTES = 1 << 28  # of one file of WordNet, whose largest has 16 MB

# The endings that the documentation of WordNet (morphy, 7WN) lists: what an inflected form ends in,
# and its base form.
ENDINGS = {
    "noun": ("s ", "ses s", "xes x", "zes z", "ches ch", "shes sh", "men man", "ies y"),
    "verb": ("s ", "ies y", "es e", "es ", "ed e", "ed ", "ing e", "ing "),
    "adj": ("er ", "est ", "er e", "est e"),
    "adv": (),
}

_LISTED = """
    a an the this that these those such same own other another each every either neither both all any some no none few many
    much more most less least several enough
    i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself
    we us our ours ourselves they them their theirs themselves one ones oneself
    who whom whose which what whoever whatever whichever when where why how whenever wherever however
    somebody someone something somewhere anybody anyone anything anywhere everybody everyone everything everywhere
    nobody nothing nowhere
    am is are was were be been being do does did done doing have has had having
    can could may might must shall should will would ought cannot need dare
    and or but nor so yet if unless because since although though while whereas whether than as until till
    of at by for with about against between among into onto through throughout during before after above below to from
    up down in out on off over under within without upon toward towards across along around behind beside besides beneath
    beyond despite except inside outside near like unlike per via amid
    not never ever only just also too very quite rather then once again here there now still already even
    ain't aren't can't couldn't didn't doesn't don't hadn't hasn't haven't isn't mightn't mustn't needn't shan't shouldn't
    wasn't weren't won't wouldn't i'm i've i'll i'd you're you've you'll you'd he's he'll he'd she's she'll she'd it's it'll
    we're we've we'll we'd they're they've they'll they'd that's there's here's what's who's where's how's let's
    n't 's 're 've 'll 'd 'm ca wo sha ai nt s t d m ll re ve don doesn didn isn aren wasn weren hasn haven hadn couldn
    shouldn wouldn im ive
"""

STOP_WORDS: frozenset[str] = frozenset(_LISTED.split())
"""The words of English grammar, lower case, with the straight apostrophe.

Contractions stand last, with what tokenisers make of them ("do n't", "don t").
"""


def is_stop_word(token: str) -> bool:
    """Whether a token is a stop word, in upper or lower case, with a straight or a curly
    apostrophe."""
    return token.lower().replace("\u2019", "'") in STOP_WORDS


@runtime_checkable
class Synonyms(Protocol):
    """Whatever knows synonyms."""

    def of(self, word: str) -> Sequence[str]:
        """The synonyms of a word in lower case, in an order that is always the same; empty where
        none is known.

        A synonym may be several words with spaces between; the word itself is none of them.
        """
        ...


def provider(of: str | Synonyms) -> Synonyms:
    """The provider that a setting stands for: `"bundled"`, the path of a folder with the files of
    WordNet, or itself."""
    if not isinstance(of, str):
        return of
    if of == "bundled":
        return Bundled()
    return WordNet(of)


@final
@dataclass(frozen=True)
class Bundled:
    """The bundled lexicon: some 900 groups of everyday English words, written for Crosswind
    (`lexicon.txt`).

    Words are found in the form in which they stand there; a word of several groups has the words of
    all of them. It suits reviews and news; for wide coverage take `WordNet`.
    """

    def of(self, word: str) -> Sequence[str]:
        """The other words of the groups that `word` stands in; see `Synonyms.of`."""
        return _lexicon().get(word, ())


@cache
def _lexicon() -> dict[str, tuple[str, ...]]:
    synonyms: dict[str, dict[str, None]] = {}
    lines = LEXICON.read_text(encoding="utf-8").splitlines()
    for group in ";".join(line for line in lines if not line.startswith("#")).split(";"):
        words = [word.strip() for word in group.split(",")]
        for word in words:
            synonyms.setdefault(word, {}).update(
                dict.fromkeys(other_word for other_word in words if other_word != word)
            )
    return {word: tuple(other_words) for word, other_words in synonyms.items()}


@cache
def bundled_words() -> tuple[str, ...]:
    """The words of the bundled lexicon that are of letters alone, in alphabetical order."""
    return tuple(sorted(word for word in _lexicon() if word.isalpha()))


@final
@dataclass(frozen=True)
class WordNet:
    """WordNet's own files in a folder: `index.*`, `data.*` and `*.exc` for noun, verb, adj and adv.

    On Debian the package wordnet-base puts them into /usr/share/wordnet; elsewhere, `path` is the
    folder `dict` of the database files of WordNet 3.x. The synonyms of a word are the other words
    of all its senses, nouns first, the most frequent sense first. An inflected form has the
    synonyms of its base form, in their base forms ("dogs": hound, ...), as the lookup of NLTK with
    which EDA was published does. Files are read once in a process, at the first word. Raises
    `DataError` where one is missing or damaged.
    """

    path: str | Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(self.path))

    def of(self, word: str) -> Sequence[str]:
        """The synonyms of `word`, in lower case, underscores as spaces; see `Synonyms.of`."""
        return _in_wordnet(str(self.path), word)


class _SynonymPart(NamedTuple):
    """The files of one part of speech: lines of the index by word, base forms of irregular words,
    sets of synonyms as they lie."""

    folder: str
    name: str
    lines: dict[bytes, bytes]
    exceptions: dict[bytes, list[bytes]]
    data: bytes


@lru_cache(maxsize=1 << 17)
def _in_wordnet(folder: str, word: str) -> tuple[str, ...]:
    lemma = word.replace(" ", "_").encode(errors="surrogatepass")
    synonyms: dict[str, None] = {}
    forms = {word}
    for part_of_speech in _parts(folder):
        for form in _forms(part_of_speech, lemma):
            forms.add(form.decode(errors="surrogatepass").replace("_", " "))
            for offset in _offsets(part_of_speech, form):
                synonyms.update(dict.fromkeys(_words_at(part_of_speech, offset)))
    return tuple(synonym for synonym in synonyms if synonym not in forms)


@cache
def _parts(folder: str) -> tuple[_SynonymPart, ...]:
    return tuple(_read_part(folder, name) for name in PARTS)


def _read_part(folder: str, name: str) -> _SynonymPart:
    with _reading(folder, f"index.{name}", "a line is not as it should be"):
        index = dict(_pair(line) for line in _lines(folder, f"index.{name}"))
        if not index:
            raise ValueError
    exceptions = {}
    for line in _lines(folder, f"{name}.exc"):
        if line.strip():
            exceptions[line.split()[0]] = line.split()[1:]
    return _SynonymPart(folder, name, index, exceptions, _bytes(folder, f"data.{name}"))


def _pair(line: bytes) -> tuple[bytes, bytes]:
    word, remainder = line.split(b" ", 1)
    return word, remainder


def _lines(folder: str, name: str) -> list[bytes]:
    # The licence at the top of a file stands in lines that begin with two spaces.
    return [
        line for line in _bytes(folder, name).splitlines() if line and not line.startswith(b"  ")
    ]


def _bytes(folder: str, name: str) -> bytes:
    try:
        return read_at_most(Path(folder) / name, MOST_BYTES)
    except FileNotFoundError:
        raise DataError(
            f"{folder} has no file {name}: WordNet's files are needed there (on Debian, package"
            " wordnet-base puts them into /usr/share/wordnet)"
        ) from None
    except OSError as error:
        problem = f"{name} of WordNet in {folder} cannot be read: {error.strerror or error}"
        raise DataError(problem) from None


@contextmanager
def _reading(folder: str, name: str, damage: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, IndexError):
        raise DataError(
            f"{name} of WordNet in {folder} is damaged or of another version: {damage}"
        ) from None


def _forms(part_of_speech: _SynonymPart, word: bytes) -> list[bytes]:
    """The words of the index that `word` is or is a form of."""
    candidates = [word, *part_of_speech.exceptions.get(word, [])]
    if word not in part_of_speech.exceptions:
        rules = (rule.encode().split(b" ") for rule in ENDINGS[part_of_speech.name])
        for ending, base in rules:
            if word.endswith(ending):
                candidates.append(word[: len(word) - len(ending)] + base)
    return [form for form in dict.fromkeys(candidates) if form in part_of_speech.lines]


def _offsets(part_of_speech: _SynonymPart, word: bytes) -> list[int]:
    # pos synset_cnt p_cnt [pointer...] sense_cnt tagsense_cnt offset...
    with _reading(
        part_of_speech.folder,
        f"index.{part_of_speech.name}",
        f"the line of {word.decode(errors='replace')!r} is not as it should be",
    ):
        fields = part_of_speech.lines[word].split()
        offsets = [int(field) for field in fields[len(fields) - int(fields[1]) :]]
        if not offsets or len(fields) != 5 + int(fields[2]) + len(offsets):
            raise ValueError
    return offsets


def _words_at(part_of_speech: _SynonymPart, offset: int) -> list[str]:
    # offset lex_filenum ss_type w_cnt (hexadecimal) word lex_id [word lex_id...] ...
    damage = (
        f"there is no set of synonyms at byte {offset}, where index.{part_of_speech.name} points"
    )
    with _reading(part_of_speech.folder, f"data.{part_of_speech.name}", damage):
        end = part_of_speech.data.find(b"\n", offset)
        fields = part_of_speech.data[offset : end if end >= 0 else None].split(b" ")
        count = int(fields[3], 16)
        words = [word.decode() for word in fields[4 : 4 + 2 * count : 2]]
        if int(fields[0]) != offset or count < 1 or len(words) != count or not all(words):
            raise ValueError
    # An adjective may end in where it stands in a sentence, as in "galore(ip)".
    return [word.partition("(")[0].replace("_", " ").lower() for word in words]
