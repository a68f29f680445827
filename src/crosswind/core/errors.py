"""The exceptions a user can meet, and how their sentences are made.

CrosswindError                 anything that Crosswind refuses; the command line prints it and exits with status 2
├── InputError                 something the user wrote: names the field, the problem and the valid choices
├── DataError                  a file or table that cannot be read as what it should be
├── NeedsError                 a method was given data that it cannot work with
├── StoreError                 a store that cannot be opened, read or written
├── RunError                   a run that failed; carries the reason that the store records
└── InternalError              a fault of Crosswind's own; a study stops at it, because other runs would have it too

Every message is one sentence on one line, without a trailing line break.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable

USUAL_LENGTH = 1000
"""Characters of a message."""
SHOWN_CHOICES = 30
"""Valid choices that a message lists at most."""
LONGEST_CHOICE, LONGEST_LISTING = 100, 1000
"""Characters of one choice, such as a value of a column, and of all that are listed."""
REPORT_REMEDY = (
    "; this is a fault of Crosswind: report it with what `crosswind doctor` prints and with the"
    " trace, which the same command prints with --debug"
)
"""How every message ends for which nothing that the user wrote is to blame."""
LONGEST_WORD = 150
"""Characters of a word that a sentence quotes whole, such as one value of a table. A path is many
words."""
_LONG_WORD = re.compile(rf"[^\s/\\]{{{LONGEST_WORD},}}")
_FOREIGN_BYTE = re.compile("[\udc80-\udcff]")
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class CrosswindError(Exception):
    """Base of everything that Crosswind refuses. The message is one sentence that a user can act
    on.

    It is cut at `limit` characters, and words in it at `LONGEST_WORD`, but for where more than
    usual is asked for, since it holds what is to be copied whole.
    """

    def __init__(self, message: str, limit: int = USUAL_LENGTH) -> None:
        if limit <= USUAL_LENGTH:
            message = _LONG_WORD.sub(lambda word: f"{word[0][:60]}...{word[0][-20:]}", message)
        super().__init__(one_line(message, limit))


class InputError(CrosswindError):
    """A value the user wrote is not valid.

    `field` is the dotted path of the value (`data.digits.label`), `problem` says what is wrong with
    it, `choices` are the valid values, if there is a list of them. `limit`: see `CrosswindError`.
    """

    def __init__(
        self,
        field: str,
        problem: str,
        choices: Iterable[object] | None = None,
        limit: int = USUAL_LENGTH,
    ) -> None:
        self.field = field
        self.problem = problem
        self.limit = limit
        if choices is None:
            self.choices = None
        else:
            self.choices = [str(choice) for choice in choices]
        super().__init__(
            (
                f"{field}: {problem}{_listing(self.choices)}"
                if field
                else f"{problem}{_listing(self.choices)}"
            ),
            limit,
        )


class DataError(CrosswindError):
    """A file or a table cannot be read as what it should be."""


class NeedsError(CrosswindError):
    """A method needs groups, environments or pairs that the training rows do not have."""


class StoreError(CrosswindError):
    """A store cannot be opened, read or written."""


class RunError(CrosswindError):
    """A run failed; the message is the reason that the store records."""


class InternalError(CrosswindError):
    """Crosswind contradicts itself: what it made is not what it should be. Nothing that the user
    wrote is to blame, and the message ends with what a report of it holds.

    `fault`: half a sentence, or the message of another `InternalError`, which is not ended twice.
    """

    def __init__(self, fault: str) -> None:
        text = fault.removesuffix(REPORT_REMEDY)
        limit = USUAL_LENGTH - len(REPORT_REMEDY)
        fault = one_line(text, limit)
        super().__init__(fault + REPORT_REMEDY)


def one_line(text: str, limit: int = USUAL_LENGTH) -> str:
    """`text` with all white space runs, line breaks included, made one space, cut at `limit`
    characters, and `plain`."""
    flat = plain(" ".join(str(text).replace("\0", "").split()))  # no database keeps a zero
    if len(flat) <= limit:
        return flat
    return flat[: limit - 3] + "..."


def plain(text: str) -> str:
    """`text` with U+FFFD for each character that steers a terminal or the direction of writing, or
    that is half of one.

    A byte of a file's name that is not UTF-8 becomes its escape, see `escaped_bytes`.
    """
    return _STEERING.sub("\ufffd", escaped_bytes(text))


def escaped_bytes(text: str) -> str:
    """`text` with `\\xfc` for each byte that is not UTF-8, as Python holds those of a file's name
    (PEP 383)."""
    return _FOREIGN_BYTE.sub(lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", text)


def escaped(text: str) -> str:
    """A text of JSON or YAML with the same characters written by their numbers, as in its strings:
    nothing is lost."""
    return _STEERING.sub(lambda letter: f"\\u{ord(letter[0]):04x}", text)


_NAMES_ELSEWHERE = {
    "amp": "precision",
    "dtype": "precision",
    "mixedprecision": "precision",
    "earlystopping": "patience",
    "gpus": "devices",
    "learningrate": "lr",
    "repeats": "seeds",
    "repetitions": "seeds",
}
"""What other programs call a setting, without marks -> what it is called here."""


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice that other programs call `word`, else the one most like it; None when nothing is
    alike (difflib ratio under 0.6)."""
    by_folded = {choice.casefold(): choice for choice in choices}
    meant = _NAMES_ELSEWHERE.get(re.sub(r"[^a-z]", "", str(word).casefold()), "")
    if meant in by_folded:
        return by_folded[meant]
    matches = difflib.get_close_matches(str(word).casefold(), list(by_folded), n=1)
    if matches:
        return by_folded[matches[0]]
    return None


def counted(n: int, noun: str) -> str:
    """A number with its noun, such as `1 row` and `2,000 rows`; a noun takes an s, and `class` an
    es."""
    plural = "es" if noun.endswith(("s", "x", "ch")) else "s"
    return f"{n:,} {noun}{plural * (n != 1)}"


def shown(value: object, limit: int = 80) -> str:
    """`value` as errors quote it: as Python writes it but for null, true and false, cut at `limit`
    characters."""
    words = {None: "null", True: "true", False: "false"}
    if value is None or isinstance(value, bool):
        return words[value]
    return one_line(repr(value), limit)


def share_hint(value: object) -> str:
    """How a percentage is written where a share is meant: `; write 0.2 for 20%`; empty where a value
    is none."""
    is_percentage = isinstance(value, str) and value.strip().endswith("%")
    try:
        percent = float(str(value).strip().removesuffix("%"))
    except ValueError:
        return ""
    is_percentage = is_percentage or (isinstance(value, int | float) and percent > 1)
    return f"; write {percent / 100:g} for {percent:g}%" if is_percentage and percent <= 100 else ""


def unknown(field: str, kind: str, word: object, choices: Iterable[object]) -> InputError:
    """The error for a name that is not in a list: names the nearest valid one and the list."""
    names = [str(choice) for choice in choices]
    guess = nearest(str(word), names)
    hint = f", did you mean {guess!r}?" if guess else ""
    mark = ":" if kind.endswith("'") else ""  # two quoted names side by side read as one
    problem = f"unknown {kind}{mark} {shown(str(word))}{hint}"
    return InputError(field, problem, names)


def _listing(choices: list[str] | None) -> str:
    if choices is None:
        return ""
    if not choices:
        return " (there are none to choose from)"
    quoted = [one_line(choice, LONGEST_CHOICE) for choice in choices[:SHOWN_CHOICES]]
    ends = itertools.accumulate(len(choice) + 2 for choice in quoted)
    n_listed = max(1, sum(end <= LONGEST_LISTING for end in ends))
    listed = ", ".join(quoted[:n_listed])
    n_hidden = len(choices) - n_listed
    return f" (valid: {listed}{f' and {n_hidden} more' if n_hidden > 0 else ''})"
