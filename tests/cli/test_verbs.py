"""The verbs of the command line: one that is called is made alone, and is the same."""

from __future__ import annotations

import subprocess
import sys

import pytest

from crosswind.cli.main import MODULES, _status, command_line


def test_a_verb_made_alone_is_the_same_as_beside_the_others() -> None:
    together = command_line()
    assert list(together.commands) == list(MODULES) and len(MODULES) == 21
    for verb in MODULES:
        alone = command_line([verb])
        assert list(alone.commands) == [verb]
        helps = [
            group.commands[verb].get_help(
                group.commands[verb].make_context(
                    verb, [], resilient_parsing=True, parent=group.make_context("crosswind", [verb])
                )
            )
            for group in (together, alone)
        ]
        assert helps[0] == helps[1] and f"crosswind {verb}" in helps[0]


def test_the_verb_that_is_called_is_imported_alone() -> None:
    code = (
        "import sys\nfrom crosswind.cli.main import _status\n"
        "assert _status(['list', 'shifts']) == 0\n"
        "print([name for name in sys.modules if name.startswith('crosswind.cli.')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = done.stdout.splitlines()[-1]
    assert "'crosswind.cli.list'" in imported and "'crosswind.cli.advise'" not in imported


def test_the_help_imports_neither_logging_nor_data_nor_networks() -> None:
    """Each costs a good part of the tenth of a second that the help takes, or more."""
    code = (
        "import sys\nfrom crosswind.cli.main import _status\nassert _status(['--help']) == 0\n"
        "print(sorted({'logging', 'numpy', 'polars', 'torch', 'typer'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['typer']"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["pln"], "error: No such command 'pln'. Did you mean 'plan'? (see crosswind --help)"),
        (["plan", "pln", "demo"], "error: Got unexpected extra argument"),
        (["--no-such", "plan", "demo"], "error: No such option: --no-such"),
        (["--", "plan", "--no-such"], "error: No such option: --no-such"),
    ],
)
def test_words_that_are_no_verb_are_refused_as_ever(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _status(words) == 2
    assert capsys.readouterr().err.startswith(sentence)
