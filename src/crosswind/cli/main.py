"""The command `crosswind`: verbs, and how errors end.

Every refusal is one sentence on standard error and exit status 2; a study that ran but has failed
runs, and a check that found something, ends with 1; an interrupt with 130. `--debug`, wherever it stands,
prints the log and the traces of refusals. Verbs import what they
need when they are called, so help and lists start at once.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import typer

from crosswind.cli.advise import advise_command
from crosswind.cli.audit import audit_command
from crosswind.cli.best import best_command
from crosswind.cli.compare import compare_command
from crosswind.cli.doctor import doctor_command
from crosswind.cli.estimate import estimate_command
from crosswind.cli.export import export_command
from crosswind.cli.features import features_command
from crosswind.cli.init import init_command
from crosswind.cli.list import list_command
from crosswind.cli.new import new_command
from crosswind.cli.plan import plan_command, schema_command
from crosswind.cli.prepare import prepare_command
from crosswind.cli.report import report_command
from crosswind.cli.run import run_command
from crosswind.cli.serve import serve_command
from crosswind.cli.show import show_command
from crosswind.cli.status import check_command, status_command
from crosswind.cli.submit import submit_command
from crosswind.core.errors import CrosswindError, one_line
from crosswind.core.log import LOGGER, shown_log
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

app = typer.Typer(
    name="crosswind",
    help=(
        "A wind tunnel for classifiers: controlled distribution shifts, robustness methods, honest"
        " statistics."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("init")(init_command)
app.command("run")(run_command)
app.command("submit")(submit_command)
app.command("plan")(plan_command)
app.command("status")(status_command)
app.command("serve")(serve_command)
app.command("report")(report_command)
app.command("best")(best_command)
app.command("compare")(compare_command)
app.command("export")(export_command)
app.command("check")(check_command)
app.command("prepare")(prepare_command)
app.command("list")(list_command)
app.command("show")(show_command)
app.command("audit")(audit_command)
app.command("advise")(advise_command)
app.command("estimate")(estimate_command)
app.command("features")(features_command)
app.command("schema")(schema_command)
app.command("new")(new_command)
app.command("doctor")(doctor_command)


def _version(value: bool) -> None:
    if value:
        from crosswind import __version__

        typer.echo(f"crosswind {__version__}")
        raise typer.Exit


@app.callback()
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
    with shown_log(logging.DEBUG):
        return _run([word for word in words if word != DEBUG])


def _run(words: list[str]) -> int:
    # A picture that PIL warns of is refused in a sentence, or read as it should be: damaged EXIF
    # data are common in photographs.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    command = typer.main.get_command(app)
    try:
        status = command.main(
            args=words,
            prog_name="crosswind",
            standalone_mode=False,
        )
    except CrosswindError as error:
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
        print("interrupted; what is done is kept, the same command goes on", file=sys.stderr)
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
