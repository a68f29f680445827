"""The verdicts on a claim, and the power for which it is said what could have been told."""

from __future__ import annotations

from collections.abc import Callable

HOLDS, OPPOSITE, CANNOT_TELL, NOT_RUN = "holds", "the opposite holds", "cannot tell", "not run yet"
POWER = 0.8
"""For which the difference is told that a claim without a verdict could have shown."""


def range_told(least: float, largest: float, words: Callable[[float], str], bound: float) -> str:
    """The true differences that would have been told, of the least and of the largest likely
    spread; none is beyond `bound`. `words` writes a difference."""
    if least >= bound:
        return "no difference, however large,"
    if largest >= bound:
        return f"{words(least)} at best"
    return " to ".join(dict.fromkeys(map(words, (least, largest))))
