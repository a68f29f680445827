"""`crosswind new KIND NAME`: a plug-in that runs as it is written, to be changed into one's own.

In a folder without a `pyproject.toml` it is a package that can be installed; in one that has it, the
package there gets one more module. Nothing that is there is written over, and where anything is in
the way nothing is written.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from crosswind.cli.options import written
from crosswind.core.errors import DataError, InputError, unknown

KINDS = {
    "method": "methods",
    "estimator": "estimators",
    "source": "sources",
    "model": "models",
    "shift": "shifts",
    "transform": "transforms",
}
"""Kinds that can be begun, and their rooms."""
GROUP = "[project.entry-points.crosswind]"
_STARTS = Path(__file__).parent / "starts"


def new_command(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="method, estimator, source, model, shift or transform."
        ),
    ],
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Its name in studies: small letters and hyphens."),
    ],
) -> None:
    """Begin a method, estimator, source, model, shift or transform of your own: its file, its test
    and its entry point.

    In a folder without a pyproject.toml a package that can be installed is written; in one that has
    it, the package there gets one more module. What is written runs, and passes its test, as it is.
    Nothing that is there is written over.
    """
    from crosswind import __version__

    check_name(kind, name)
    folder = Path.cwd()
    project = folder / "pyproject.toml"
    if project.exists():
        start = in_package(kind, name, project)
    else:
        start = new_package(kind, name, folder, __version__)
    start.write()
    for path in start.files:
        typer.echo(f"wrote {path.relative_to(folder)}")
    typer.echo(
        f"next: pip install -e . && python -m pytest {start.test.relative_to(folder)}; then"
        f" crosswind show {kind} {name}"
    )


def check_name(kind: str, name: str) -> None:
    """Raise `InputError` for a kind that cannot be begun, and for a name that no plug-in can have
    here."""
    from crosswind.core.registry import listing

    if kind not in KINDS:
        raise unknown("KIND", "kind", kind, KINDS)
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or len(name) > 60:
        raise InputError(
            "NAME", f"must be small letters, digits and hyphens, such as top-loss, not {name!r}"
        )
    if keyword.iskeyword(module_name(name)):
        raise InputError("NAME", f"{name!r} is a word of Python")
    if name in {component.name for component in listing(KINDS[kind])}:
        problem = f"there is a {kind} {name!r} already: crosswind show {kind} {name}"
        raise InputError("NAME", problem)


def module_name(name: str) -> str:
    """The module of a plug-in: its name with underscores."""
    return name.replace("-", "_")


@dataclass(frozen=True)
class Start:
    """The files to be written. `files`: texts by path, of files that are not there; `changed`: the
    new text of files that are."""

    files: dict[Path, str]
    changed: dict[Path, str]
    test: Path

    def write(self) -> None:
        """Write all of it. Raises `InputError` where a file is there already; then nothing is
        written."""
        for path in self.files:
            if path.exists():
                raise InputError("NAME", f"{path} is there already; name another, or move it")
        for path, text in {**self.files, **self.changed}.items():
            with written("NAME", path):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")


def new_package(kind: str, name: str, folder: Path, version: str) -> Start:
    """A package in a folder that has none."""
    package = f"crosswind_{module_name(name)}"
    words = _words(kind, name, package) | {
        "DISTRIBUTION": package.replace("_", "-"),
        "VERSION": version,
    }
    project = with_entry_point(_filled("pyproject.toml", words), name, package)
    module, test = _module_and_test(kind, words, folder / "src" / package, folder / "tests")
    files = {
        folder / "pyproject.toml": project,
        folder / "src" / package / "__init__.py": '"""A plug-in of Crosswind."""\n',
        **module,
        **test,
    }
    return Start(files, {}, next(iter(test)))


def in_package(kind: str, name: str, project: Path) -> Start:
    """One more module of the package whose `pyproject.toml` this is. Raises `InputError` where the
    package cannot be told, or has an entry point of that name."""
    import tomllib

    folder, values = package_of(project)
    points = values.get("project", {}).get("entry-points", {}).get("crosswind", {})
    if name in points:
        raise InputError("NAME", f"{project.name} has an entry point {name!r} already")
    words = _words(kind, name, folder.name)
    tests = project.parent / "tests"
    module, test = _module_and_test(kind, words, folder, tests)
    text = with_entry_point(project.read_text(encoding="utf-8"), name, folder.name)
    if tomllib.loads(text)["project"]["entry-points"]["crosswind"].get(name) is None:
        raise InputError("NAME", f"{project.name} writes its entry points in a way not known here")
    return Start({**module, **test}, {project: text}, next(iter(test)))


def package_of(project: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of the package of a `pyproject.toml`, and what that file says."""
    import tomllib

    try:
        values = tomllib.loads(project.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{project} cannot be read: {error}") from None
    declared = values.get("project", {})
    points = declared.get("entry-points", {}).get("crosswind", {})
    names = [str(point).partition(".")[0] for point in points.values()]
    names.append(re.sub(r"[-.]+", "_", str(declared.get("name", ""))))
    for name in names:
        for parent in (project.parent / "src", project.parent):
            if name and (parent / name / "__init__.py").is_file():
                return parent / name, values
    packages = sorted(path.parent for path in (project.parent / "src").glob("*/__init__.py"))
    if len(packages) != 1:
        raise InputError(
            "NAME",
            f"{project} names no package that is in src or beside it; begin one in an empty folder",
        )
    return packages[0], values


def with_entry_point(text: str, name: str, package: str) -> str:
    """The text of a `pyproject.toml` with one more line in its entry points."""
    line = f'{name} = "{package}.{module_name(name)}"\n'
    if GROUP in text:
        return text.replace(f"{GROUP}\n", f"{GROUP}\n{line}", 1)
    return f"{text.rstrip()}\n\n{GROUP}\n{line}"


def _words(kind: str, name: str, package: str) -> dict[str, str]:
    class_name = "".join(part.capitalize() for part in name.split("-"))
    return {
        "KIND": kind,
        "NAME": name,
        "CLASS": class_name,
        "MODULE": module_name(name),
        "PACKAGE": package,
    }


def _module_and_test(
    kind: str, words: dict[str, str], package: Path, tests: Path
) -> tuple[dict[Path, str], dict[Path, str]]:
    module = package / f"{words['MODULE']}.py"
    test = tests / f"test_{words['MODULE']}.py"
    return {module: _filled(f"{kind}.py", words)}, {test: _filled("test.py", words)}


def _filled(start: str, words: dict[str, str]) -> str:
    """The text of a start with the words in place of `@WORD@`."""
    text = (_STARTS / f"{start}.txt").read_text(encoding="utf-8")
    return re.sub(r"@([A-Z]+)@", lambda mark: words[mark[1]], text)
