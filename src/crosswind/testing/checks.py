"""A check: a name, the class that it looks at, and one sentence where it does not hold."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from crosswind.core import registry
from crosswind.core.errors import CrosswindError, one_line
from crosswind.core.knobs import check, knobs_of

__all__ = ["Check", "CheckFailed", "declaration_checks", "require", "run_checks"]


class CheckFailed(AssertionError):
    """A check does not hold. The message is a sentence that names the class, the check, what is
    wrong and what to do; of several checks, a line each."""


class _Unmet(Exception):
    """The fault, and its remedy."""


@dataclass(frozen=True)
class Check:
    """One thing that every class of a kind must hold. Calling it raises `CheckFailed`.

    `name`: in lower case with hyphens. `subject`: the name of the class. `look`: does it.
    """

    name: str
    subject: str
    look: Callable[[], None] = dataclasses.field(repr=False)

    def __call__(self) -> None:
        """Do the check."""
        begin = f"{self.subject} fails the check {self.name!r}: "
        try:
            self.look()
        except _Unmet as unmet:
            raise CheckFailed(begin + str(unmet)) from unmet.__cause__
        except Exception as error:
            raise CheckFailed(
                f"{begin}it raises {type(error).__name__}: {one_line(str(error), 400)}; {_where(error)}"
            ) from error

    def __str__(self) -> str:
        return self.name


def require(holds: object, problem: str, remedy: str) -> None:
    """Fail the check that is under way unless something holds. `problem` goes on from the name of
    the class, `remedy` says what to do."""
    if not holds:
        raise _Unmet(f"{problem}; {remedy}")


def require_values(cls: Any, settings: Mapping[str, Any]) -> None:
    """Require a value in `settings` for each knob of a class that has no default."""
    for knob in knobs_of(cls):
        require(
            not knob.required or knob.name in settings,
            f"its knob {knob.name!r} has no default",
            f"name a value for the checks: knobs={{{knob.name!r}: ...}}",
        )


def run_checks(checks: Iterable[Check], skip: Mapping[str, str] | None = None) -> None:
    """Do every check but those of `skip` (name -> why it cannot hold).

    Raises `CheckFailed` with a line for each that does not hold, and for a name in `skip` that is
    no check's.
    """
    checks, skip = list(checks), skip or {}
    unknown = sorted(set(skip) - {one_check.name for one_check in checks})
    if unknown:
        names = ", ".join(one_check.name for one_check in checks)
        raise CheckFailed(f"there is no check {unknown[0]!r} to skip; there are {names}")
    failures: list[CheckFailed] = []
    for one_check in checks:
        if one_check.name not in skip:
            try:
                one_check()
            except CheckFailed as failure:
                failures.append(failure)
    if failures:
        raise CheckFailed("\n".join(map(str, failures))) from failures[0].__cause__


def _where(error: Exception) -> str:
    """Where to look for an exception that the class raised."""
    frames = inspect.getinnerframes(error.__traceback__) if error.__traceback__ else []
    outside = [frame for frame in frames if f"{Path(__file__).parent.name}/" not in frame.filename]
    if not outside:
        return "see the exception before this one"
    return f"see {Path(outside[-1].filename).name}, line {outside[-1].lineno}"


# -- what every registered class declares ----------------------------------------------------------


def declaration_checks(cls: Any, kinds: Sequence[str], base: type) -> list[Check]:
    """The checks of what a class declares, for a class of one of the `kinds` that derives from
    `base`."""
    looks: dict[str, Callable[[], None]] = {
        "is-registered": lambda: _is_registered(cls, kinds, base),
        "is-a-frozen-dataclass-of-knobs": lambda: _is_frozen_dataclass_of_knobs(cls),
        "says-what-it-is": lambda: _says_what_it_is(cls),
        "defaults-and-searches-lie-in-the-domains": lambda: _values_lie_in_domains(cls),
        "is-read-without-an-import": lambda: _is_read_without_import(cls),
    }
    return [Check(name, getattr(cls, "__name__", str(cls)), look) for name, look in looks.items()]


def _is_registered(cls: Any, kinds: Sequence[str], base: type) -> None:
    require(
        isinstance(cls, type) and issubclass(cls, base),
        f"it is no {base.__name__}",
        f"derive it from {base.__module__}.{base.__name__}",
    )
    kind = getattr(cls, "registered_kind", None)
    require(
        kind in kinds,
        f"it is registered as {kind!r}" if kind else "it is not registered",
        f'put @register("its-name", kind="{kinds[0]}") above @dataclass(frozen=True)',
    )


def _is_frozen_dataclass_of_knobs(cls: Any) -> None:
    parameters: Any = getattr(cls, "__dataclass_params__", None)
    is_frozen = parameters is not None and parameters.frozen
    require(is_frozen, "it is no frozen dataclass", "put @dataclass(frozen=True) under @register")
    plain = sorted({field.name for field in fields(cls)} - {knob.name for knob in knobs_of(cls)})
    require(
        not plain,
        f"its field {plain[0] if plain else ''!r} is no knob",
        "declare it as NAME: TYPE = knob(DEFAULT, domain=..., doc=...), or as a ClassVar",
    )
    for knob in knobs_of(cls):
        require(knob.doc, f"its knob {knob.name!r} says nothing", 'add doc="what it is" to it')


def _says_what_it_is(cls: Any) -> None:
    doc = cls.__dict__.get("__doc__") or ""
    # A dataclass without a docstring has its signature in that place.
    require(
        doc.strip() and not doc.startswith(f"{cls.__name__}("),
        "it has no docstring",
        "begin it with one sentence: lists show its first paragraph",
    )


def _values_lie_in_domains(cls: Any) -> None:
    for knob in knobs_of(cls):
        of_grids = [value for values in (knob.grid or {}).values() for value in values]
        of_search = knob.search.ends() if knob.search else ()
        defaults = [] if knob.required else [knob.default]
        for value in [*defaults, *of_search, *of_grids]:
            try:
                checked = check(knob, value, knob.name)
            except CrosswindError as error:
                require(False, f"its own value is refused: {error}", "mend the domain or the value")
            require(
                checked == value,
                f"its knob {knob.name!r} makes {checked!r} of its own value {value!r}",
                f"write {checked!r}",
            )


def _is_read_without_import(cls: Any) -> None:
    """Lists and plans read the declarations from the file; both readers must see the same."""
    try:
        path = Path(inspect.getsourcefile(cls) or "")
    except (TypeError, OSError):  # a notebook: the class is read as it is there
        return
    if not path.is_file() or cls.__module__ == "__main__":
        return
    live = registry.facts_of_class(cls)
    in_file = {
        facts.qualname: facts for facts in registry.facts_in_file(cls.__module__, path, live.room)
    }
    require(
        cls.__qualname__ in in_file,
        f"{path.name} has no class {cls.__qualname__} at its top level with @register",
        "define it at the top of its module: lists and workers look for it there",
    )
    for field in fields(live):
        seen, declared = getattr(in_file[cls.__qualname__], field.name), getattr(live, field.name)
        require(
            seen == declared,
            f"its {field.name} is {declared!r}, and read from the file {seen!r}",
            "write it in the class body with literals and words of crosswind.core.knobs",
        )
