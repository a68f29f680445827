"""What every fuzz suite is made of: strange values, changed bytes and structures, and how the
command line answers to them."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crosswind.cli.main import _status

WORDS = [
    *(
        "",
        " ",
        "erm",
        "test",
        "best-id",
        "0",
        "-1",
        "nan",
        "x" * 3000,
        "é\u202e\u200d",
        "a\nb\tc",
        "\x00",
        "\x1b[2J\x07",
        "\u2028",
    ),
    *(
        "\ud800",
        "\udfff",
        "-->",
        "<script>window.broken = 1</script>",
        "</script><script>window.broken = 1</script>",
        "<!--",
    ),
    *(
        '"><img src=x onerror="window.broken = 1">',
        "' onmouseover='window.broken = 1",
        "<svg/onload=window.broken=1>",
        "&lt;b&gt;",
    ),
    *(
        "]]>",
        "</style><b>",
        "</pre></details></main>",
        "{{ 7 * 7 }}",
        "{% raw %}",
        "javascript:window.broken=1",
        "datum.x",
    ),
    *("../../../../tmp/x", "a/b", "NUL", "%s%n", "\\", "$(id)", "=1+1", "@SUM(1)", "__proto__"),
]
NUMBERS: list[Any] = [
    0,
    -1,
    1,
    0.5,
    -0.0,
    1e308,
    -1e308,
    5e-324,
    1e-300,
    2**53,
    2**63,
    10**30,
    -(10**25),
]
NUMBERS += [float("nan"), float("inf"), float("-inf"), True, False]
ODD: list[Any] = [
    None,
    [],
    {},
    [[]],
    [None],
    {"": None},
    [1, "a"],
    {"a": {"b": {"c": []}}},
    *NUMBERS,
    *WORDS,
]
PIECES = [
    *(
        "",
        ",",
        "\n",
        '"',
        "'",
        "\0",
        "\r",
        "\ufeff",
        "é",
        "\ud800",
        "..",
        "/",
        "NaN",
        "null",
        "1e999",
        "-",
        "#",
        "{",
        "}",
        "[",
    ),
    *("]", ": "),
    *(
        "- ",
        "? ",
        "|",
        ">",
        "&a",
        "*a",
        "!!python/object:os.system ",
        "%",
        "@",
        "`",
        "\t",
        "---\n",
        "9" * 400,
        "x" * 5000,
    ),
]


def counts(few: int, n_calls: int) -> pytest.MarkDecorator:
    """`count` of a test: few in the default tests, many in the long drills."""
    return pytest.mark.parametrize("count", [few, pytest.param(n_calls, marks=pytest.mark.verify)])


def tried(count: int, check: Callable[[random.Random], None]) -> None:
    """`check` on `count` sources of chance; a failing one is told by its seed."""

    @settings(max_examples=count, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**48))
    def run(seed: int) -> None:
        check(random.Random(seed))

    run()


def mutated(
    value: Any, chance: random.Random, odd: Sequence[Any] = ODD, words: Sequence[str] = WORDS
) -> Any:
    """`value` with one of its parts replaced by an `odd` value or by another part, removed, renamed
    or doubled."""
    value = copy.deepcopy(value)
    containers: list[tuple[Any, Any]] = []

    def visit(inner: Any) -> None:
        for key in (
            list(inner)
            if isinstance(inner, dict)
            else range(len(inner))
            if isinstance(inner, list)
            else ()
        ):
            containers.append((inner, key))
            visit(inner[key])

    visit(value)
    if not containers or chance.random() < 0.02:
        return copy.deepcopy(chance.choice(odd))
    inner, key = chance.choice(containers)
    turn = chance.random()
    if turn < 0.65:
        inner[key] = copy.deepcopy(chance.choice(odd))
    elif turn < 0.75:
        del inner[key]
    elif turn < 0.85:
        container, place = chance.choice(containers)
        inner[key] = (
            copy.deepcopy(container[place])
            if place in (container if isinstance(container, dict) else range(len(container)))
            else None
        )
    elif turn < 0.95 and isinstance(inner, dict):
        inner[chance.choice([*words, f"{key}s"])] = inner.pop(key)
    else:
        inner[key] = [inner[key]]
    return value


def changed(raw: bytes, chance: random.Random) -> bytes:
    """`raw` with some bytes changed, cut out, doubled, or pieces put in that often break
    readers."""
    out = bytearray(raw)
    for _ in range(chance.choice([1, 1, 2, 5, 20])):
        start, to = sorted(chance.randrange(len(out) + 1) for _ in range(2))
        turn = chance.random()
        if turn < 0.35 and out:
            out[min(start, len(out) - 1)] = chance.randrange(256)
        elif turn < 0.65:
            out[start:start] = chance.choice(PIECES).encode("utf-8", "surrogatepass")
        elif turn < 0.75:
            del out[start : min(to, start + 40)]
        elif turn < 0.85:
            out[start:start] = out[start : min(to, start + 40)]
        elif turn < 0.9:
            del out[start:]
    return bytes(out)


class Answers:
    """How often the command line accepted and refused, each refusal in one sentence."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys, self.found = capsys, {0: 0, 2: 0}

    def of(self, *words: object) -> int:
        """The exit status of one command."""
        status = _status([str(word) for word in words])
        printed = self.capsys.readouterr()
        errors = [line for line in printed.err.split("\n") if line.startswith("error: ")]
        assert status in self.found and len(errors) == (status == 2), (status, printed.err)
        assert not any(sign in printed.out + printed.err for sign in "\x00\x1b\x07"), (
            "control characters reach the terminal"
        )
        # What was written is quoted in part only, so the field and the choices are not lost beside
        # it.
        assert all(len(line) < 1500 and "xxxxx" * 30 not in line for line in errors), errors
        self.found[status] += 1
        return status
