"""How the reason of a failed job is handed on to those that need it, and how reasons that say the
same are told once."""

from __future__ import annotations

import re
from collections.abc import Iterable

_KEY_LETTERS = 12
_BEFORE_THE_SENTENCE = re.compile(rf"(needs [0-9a-f]{{{_KEY_LETTERS}}}), which failed: ")


def handed_on(needed: str, why: str = "", reason: str | None = None) -> str:
    """The reason of a job that needs the job `needed`: `why` it cannot have it, or that it failed,
    and the `reason` of that."""
    sentence = f": {reason}" if reason else ""
    return f"needs {needed[:_KEY_LETTERS]}, {why or f'which failed{sentence}'}"


def root_reason(reason: str) -> str:
    """The sentence of the job that failed first, whichever job it is."""
    return _BEFORE_THE_SENTENCE.sub("", reason, count=1)


def shared_reason(reasons: Iterable[str]) -> str:
    """One text for reasons with the same `root_reason`: of jobs that need several failed ones it
    names the first."""
    different = list(dict.fromkeys(reasons))
    if len(different) == 1:
        return different[0]
    direct = root_reason(different[0])
    if direct in different:
        return direct
    return _BEFORE_THE_SENTENCE.sub(r"\1 or another, which failed: ", different[0], count=1)


def different_reasons(reasons: Iterable[str]) -> list[str]:
    """The reasons in their order, those with the same `root_reason` as one."""
    groups: dict[str, list[str]] = {}
    for reason in reasons:
        groups.setdefault(root_reason(reason), []).append(reason)
    return [shared_reason(group) for group in groups.values()]
