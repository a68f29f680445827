"""The command `crosswind`: verbs, and how errors end.

Every refusal is one sentence on standard error and exit status 2; a study that ran but has failed
runs, and a check that found something, ends with 1; an interrupt with 130. `--debug`, wherever it stands,
prints the log and the traces of refusals. The verb that is called alone is imported, and imports
what it needs, so help and lists start at once.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
import typer.core

from crosswind.core.errors import CrosswindError, InputError, one_line
from crosswind.core.printing import LOCALE_REMEDY, escape_output

DEBUG = "--debug"
UNFORESEEN = (
    "; this is a fault of Crosswind: report it with the trace above and what `crosswind doctor`"
    " prints"
)

# Newer typer carries its own click: the classes of what it raises are found from one that it
# exports.
_UsageError: Any = typer.BadParameter.__mro__[1]
_ClickException: Any = typer.BadParameter.__mro__[2]

MODULES = {
    "init": "init",
    "run": "run",
    "submit": "submit",
    "plan": "plan",
    "status": "status",
    "serve": "serve",
    "report": "report",
    "best": "best",
    "compare": "compare",
    "export": "export",
    "check": "status",
    "prepare": "prepare",
    "list": "list",
    "show": "show",
    "audit": "audit",
    "advise": "advise",
    "estimate": "estimate",
    "features": "features",
    "schema": "plan",
    "new": "new",
    "doctor": "doctor",
}
"""Verb, in the order of the help -> module of this package that defines `VERB_command`."""

RESUMED = ("run", "prepare")
"""Verbs that go on where they were interrupted; the others begin anew, and have nothing to lose."""


def _version(value: bool) -> None:
    if value:
        from crosswind import __version__

        typer.echo(f"crosswind {__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
    debug: bool = typer.Option(
        False,
        DEBUG,
        help="Print the log, and of an error its trace; may stand anywhere in the command.",
    ),
) -> None:
    pass


_PATHS = ("FILE", "DIR")
"""How the help calls a value that is a path."""


class VerbCommand(typer.core.TyperCommand):
    """A verb whose options are heard as they were typed, or refused: of an option that takes one
    value the last would stand, and "" would be the working directory."""

    def make_parser(self, ctx: Any) -> Any:
        """The parser of the words after the verb."""
        parser: Any = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_heard(args: list[str]) -> Any:
            values, words, order = parse(args)
            if not ctx.resilient_parsing:  # of completion, which reads what is half typed
                _refuse_unheard_values(values, order)
            return values, words, order

        parser.parse_args = parse_heard
        return parser


def _refuse_unheard_values(values: Mapping[str, Any], order: Sequence[Any]) -> None:
    """Refuse an option for one value that was given several, and a path without a name. Raises
    `InputError`."""
    options = [parameter for parameter in order if parameter.param_type_name == "option"]
    for option in options:
        name = max(option.opts, key=len)
        single = not (option.multiple or option.is_flag)
        if single and options.count(option) > 1:
            raise InputError(name, "is given twice, and one is heard; leave the others out")
        if values.get(option.name) == "" and option.metavar in _PATHS:
            raise InputError(name, "must not be empty")


def command_line(verbs: Iterable[str] = MODULES) -> Any:
    """The command `crosswind` with some of its verbs: making all 21 takes longer than most of them
    need to begin."""
    app = typer.Typer(
        name="crosswind",
        help=(
            "A wind tunnel for classifiers: controlled distribution shifts, robustness methods,"
            " honest statistics."
        ),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for verb in verbs:
        module = importlib.import_module(f"crosswind.cli.{MODULES[verb]}")
        app.command(verb, cls=VerbCommand)(getattr(module, f"{verb}_command"))
    return typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ends the process with its exit status.

    An exception that nobody foresaw ends with 1, its trace and what a report of it holds.
    """
    try:
        status = _status(arguments)
    except Exception as error:
        traceback.print_exception(error)
        print(f"error: {one_line(str(error))}{UNFORESEEN}", file=sys.stderr)
        status = 1
    sys.exit(status)


def _status(arguments: Sequence[str] | None) -> int:
    """The exit status of a command. Its errors are printed, see `main`."""
    escape_output()
    words = sys.argv[1:] if arguments is None else list(arguments)
    if DEBUG not in words:
        return _run(words)
    # Not above: `logging` is a sixth of the time of `--help`.
    from crosswind.core.log import DEBUG_LEVEL, shown_log

    with shown_log(DEBUG_LEVEL):
        return _run([word for word in words if word != DEBUG])


def _run(words: list[str]) -> int:
    # A picture that PIL warns of is refused in a sentence, or read as it should be: damaged EXIF
    # data are common in photographs.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    command = command_line([verb for verb in words[:1] if verb in MODULES] or MODULES)
    try:
        status = command.main(
            args=words,
            prog_name="crosswind",
            standalone_mode=False,
        )
    except CrosswindError as error:
        from crosswind.core.log import LOGGER

        LOGGER.debug("refused", exc_info=error)
        return _refuse(str(error))
    except _UsageError as error:
        if (
            type(error).__name__ == "NoArgsIsHelpError"
        ):  # the bare command: its message is the whole help
            typer.echo(error.format_message())
            return 0
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
        return _refuse(one_line(error.format_message()) + hint)
    except _ClickException as error:
        return _refuse(one_line(error.format_message()))
    except UnicodeEncodeError as error:
        return _refuse(_unencodable(error))
    except (typer.Abort, KeyboardInterrupt):
        status = 130  # what newer typer returns
    except BrokenPipeError:
        # The reader (head, less) went away; what it wanted it has.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    if status == 130:
        goes_on = bool(words) and words[0] in RESUMED
        remedy = (
            "what is done is kept, the same command goes on"
            if goes_on
            else "the same command begins anew"
        )
        print(f"interrupted; {remedy}", file=sys.stderr)
    return status if isinstance(status, int) else 0


def _unencodable(error: UnicodeEncodeError) -> str:
    """The remedy for a name that the system's encoding, or a library that takes UTF-8 alone, has no
    bytes for."""
    return (
        f"the name {error.object!r} cannot be written in {error.encoding}: rename it, or work from"
        " within its folder"
    )


def _refuse(sentence: str) -> int:
    encoding = sys.getfilesystemencoding()
    # A file that is there is not found by a name that the locale cannot write.
    hint = (
        ""
        if encoding == "utf-8" or sentence.isascii()
        else f" (names of files are read in {encoding} here; {LOCALE_REMEDY})"
    )
    print(f"error: {sentence}{hint}", file=sys.stderr)
    return 2
