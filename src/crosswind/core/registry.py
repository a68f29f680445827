"""Find by name, without importing: the facts of every registered class are read from its file.

A class is registered by the decorator `@register("groupdro", kind="method")`. Listing, planning and
help may not import torch, which most of these files do. So the files of a room are parsed, and only
the *declarations* of a registered class are evaluated: docstring, knobs, needs, limit, action,
built, version. Nothing but the words of `crosswind.core.knobs` and its neighbours is known to them.
A list parses every file of its room, a name only those that register it. `load` imports
the file.

Classes outside the package come by the entry-point group `crosswind`, whose values name modules
(read in the same way), or are registered by being defined in the running program. A worker process
imports the modules that `CROSSWIND_MODULES` names.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from crosswind.core import actions, cards
from crosswind.core import knobs as declarations
from crosswind.core.actions import Action
from crosswind.core.cards import Card
from crosswind.core.errors import InputError, unknown
from crosswind.core.knobs import Access, Form, Knob, Limit, Needs

C = TypeVar("C", bound=type)

# room -> (package whose files are read, kinds that live there)
ROOMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "methods": ("crosswind.methods", ("method", "augmentation", "architecture")),
    "models": ("crosswind.models", ("model",)),
    "sources": ("crosswind.data.sources", ("source",)),
    "shifts": ("crosswind.shifts", ("shift",)),
    "transforms": ("crosswind.transforms", ("transform",)),
    "text-transforms": ("crosswind.transforms.text", ("text-transform",)),
    "vector-transforms": ("crosswind.transforms.vectors", ("vector-transform",)),
    "estimators": ("crosswind.estimators", ("estimator",)),
}
MODULES_VARIABLE = "CROSSWIND_MODULES"
"""The environment variable that names, with commas between, modules in which a worker finds
classes."""

_WORDS: dict[str, Any] = {
    name: word
    for module in (declarations, actions, cards)
    for name, word in vars(module).items()
    if not name.startswith("_") and getattr(word, "__module__", "") == module.__name__
}
_DECLARED = (
    "needs",
    "limit",
    "action",
    "built",
    "card",
    "copy",
    "own",
    "version",
    "family",
    "extra",
    "access",
)
_LIVE: dict[tuple[str, str], type] = {}


@dataclass(frozen=True)
class Facts:
    """Facts of a registered class, known without importing it.

    `name`: in studies. `kind`: as registered, such as `method`. `room`: the package of its kind,
    such as `methods`. `module`, `qualname`, `doc`: where the class lies, and its docstring. `knobs`:
    its settings. `defines`: the names of what its body defines. All others are what the class
    declares under that name, None or empty where it declares nothing: `needs`, `limit`, `action`,
    `version` and `family` of a method, `built` of a model, `card`, `copy` and `own` of a source,
    `access` of an estimator, and `extra`, the extra of Crosswind that it needs.
    """

    name: str
    kind: str
    room: str
    module: str
    qualname: str
    doc: str
    knobs: tuple[Knob, ...] = ()
    needs: Needs | None = None
    limit: Limit | None = None
    action: Action | None = None
    built: Form | None = None
    card: Card | None = None
    copy: str = ""
    own: tuple[str, ...] = ()
    version: int = 1
    family: Any = None
    extra: str | None = None
    access: Access | None = None
    defines: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring, in one line."""
        return " ".join(self.doc.strip().partition("\n\n")[0].split())

    def describe(self) -> dict[str, Any]:
        """The facts as plain values for JSON."""
        hooks = list(self.defines) if self.room == "methods" else None
        family = self.family or None
        description: dict[str, Any] = {"family": family, "hooks": hooks}
        for name, fact in (("needs", self.needs), ("built", self.built), ("access", self.access)):
            description[name] = (
                None
                if fact is None
                else {key: value for key, value in asdict(fact).items() if value}
            )
        if self.limit is not None:
            knobs = dict(self.limit.knobs)
            description["limit"] = {
                "knobs": knobs,
                "equals": self.limit.equals,
                "reason": self.limit.reason,
            }
        if self.card is not None:
            description["card"] = self.card.describe()
        always = {
            "name": self.name,
            "kind": self.kind,
            "summary": self.summary,
            "version": self.version,
        }
        always["knobs"] = [fact.describe() for fact in self.knobs]
        return {
            **always,
            **{name: value for name, value in description.items() if value is not None},
        }


def register(name: str, *, kind: str) -> Callable[[C], C]:
    """Give a class its name. A second class of the same name and room is an error, wherever it
    comes from."""
    room = _room_of(kind)

    def attach(cls: C) -> C:
        identity = (cls.__module__, cls.__qualname__)
        registered = _LIVE.get((room, name))
        if registered is None:
            taken = None
        else:
            taken = (registered.__module__, registered.__qualname__)
        installed = None if _is_ours(cls.__module__) else _find(room, name)
        if taken is None and installed is not None:
            taken = (installed.module, installed.qualname)
        if taken not in (None, identity):
            problem = f"{name!r} is already registered in {room} by {'.'.join(taken or ())}"
            raise InputError("name", problem)
        _LIVE[room, name] = cls
        cls.registered_name = name  # type: ignore[attr-defined]
        cls.registered_kind = kind  # type: ignore[attr-defined]
        return cls

    return attach


def listing(room: str) -> list[Facts]:
    """The facts of everything in a room, by name."""
    if room not in ROOMS:
        raise unknown("kind", "kind of thing", room, ROOMS)
    facts_by_name = dict(_scan(room))
    for (live_room, name), cls in _LIVE.items():
        if live_room == room and name not in facts_by_name:
            facts_by_name[name] = facts_of_class(cls)
    return [facts_by_name[name] for name in sorted(facts_by_name)]


def facts(room: str, name: str, field: str = "name") -> Facts:
    """The facts of one thing; an unknown name is an `InputError` on `field` with the nearest
    names."""
    installed = _find(room, name)
    if installed is not None:
        return installed
    if (room, name) not in _LIVE:
        import_named()
    if (room, name) in _LIVE:
        return facts_of_class(_LIVE[room, name])
    choices = [known_facts.name for known_facts in listing(room)]
    raise unknown(field, room.removesuffix("s"), name, choices)


def load(room: str, name: str, field: str = "name") -> type:
    """The class itself; imports its file."""
    known_facts = facts(room, name, field)
    if (room, name) not in _LIVE:
        described = f"{room.removesuffix('s')} {name!r}"
        module = _import(known_facts.module, described)
        _LIVE.setdefault((room, name), getattr(module, known_facts.qualname))
    return _LIVE[room, name]


def outside_modules(functions: Iterable[Callable[..., Any]] = ()) -> list[str]:
    """The modules, by names that another process can import, of classes that only this program has
    registered, and of `functions` that it has declared as metrics.

    What is defined in the program itself is found there under its file's name. Raises `InputError`
    where it has no file, as in an interactive session.
    """
    declared = [
        (name, cls.__module__) for (room, name), cls in _LIVE.items() if _find(room, name) is None
    ]
    declared += [(function.__name__, function.__module__) for function in functions]
    modules = set()
    for name, module in declared:
        if _is_ours(module):
            continue
        if module == "__main__":
            main = sys.modules["__main__"]
            spec = getattr(main, "__spec__", None)
            file = getattr(main, "__file__", None)
            if spec is None and file is None:
                raise InputError(
                    "workers",
                    f"{name!r} is defined in this session, where workers cannot find it; use"
                    " workers=0",
                )
            if spec is not None:
                module = spec.name.removesuffix(".__main__")
            else:
                module = Path(str(file)).stem
        modules.add(module)
    return sorted(modules)


def _room_of(kind: str) -> str:
    for room, (_, kinds) in ROOMS.items():
        if kind in kinds:
            return room
    choices = [kind for _, kinds in ROOMS.values() for kind in kinds]
    raise unknown("kind", "kind", kind, choices)


@cache
def _scan(room: str) -> dict[str, Facts]:
    """The facts of every class of a room that is installed, by name."""
    facts_by_name: dict[str, Facts] = {}
    for module, path in _files_of_room(room):
        for facts_read in _read_once(module, path, room):
            _add(facts_by_name, facts_read)
    return facts_by_name


@cache
def _find(room: str, name: str) -> Facts | None:
    """The facts of one installed class, from the files alone that register its name."""
    registering = re.compile(rf"""register\(\s*["']{re.escape(name)}["']""")
    facts_by_name: dict[str, Facts] = {}
    for module, path in _files_of_room(room):
        if registering.search(_registering_text(module, path)):
            for facts_read in _read_once(module, path, room):
                if facts_read.name == name:
                    _add(facts_by_name, facts_read)
    # A name may be written otherwise, in two parts or with an escape.
    return facts_by_name.get(name) or _scan(room).get(name)


def _add(facts_by_name: dict[str, Facts], facts_read: Facts) -> None:
    """Add the facts of a class. Raises `InputError` where its name is taken."""
    if facts_read.name in facts_by_name:
        taken = facts_by_name[facts_read.name]
        problem = (
            f"{facts_read.name!r} is registered in {taken.room} by"
            f" {taken.module} and {facts_read.module}"
        )
        raise InputError("name", problem)
    facts_by_name[facts_read.name] = facts_read


@cache
def _files_of_room(room: str) -> list[tuple[str, Path]]:
    package, _ = ROOMS[room]
    return [*_files_of(package), *_plugins()]


def _files_of(package: str) -> list[tuple[str, Path]]:
    # The path of the package is known from ours: asking the import system would import the parent
    # packages.
    folder = Path(__file__).resolve().parents[1].joinpath(*package.split(".")[1:])
    files = sorted(path for path in folder.rglob("*.py") if path.stem != "__init__")
    return [
        (".".join([package, *path.relative_to(folder).with_suffix("").parts]), path)
        for path in files
    ]


@cache
def _plugins() -> list[tuple[str, Path]]:
    files = {}
    for point in importlib.metadata.entry_points(group="crosswind"):
        module = point.value.partition(":")[0].strip()
        path = _file_of(module)
        if path is None:
            whose = f"the plug-in {point.name!r}" + (
                f" of {point.dist.name}" if point.dist is not None else ""
            )
            raise InputError(
                whose, f"its module {module!r} cannot be found; install it again, or uninstall it"
            )
        files[module] = path
    return list(files.items())


def _file_of(module: str) -> Path | None:
    # Only the top is asked of the whole import system: for a longer name it would import the
    # parents, which may be slow, or broken.
    top, *names = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
        for name in names:
            search_locations = None if spec is None else spec.submodule_search_locations
            spec = None
            if search_locations is not None:
                spec = PathFinder.find_spec(name, list(search_locations))
    except (ImportError, ValueError):
        return None
    file = None
    if spec is not None and spec.origin is not None:
        file = Path(spec.origin)
    if file is not None and file.is_file():
        return file
    return None


def _import(module: str, described: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except Exception as error:  # whatever the code of somebody else does when it is imported
        if _is_ours(module):
            raise
        problem = f"its module {module!r} cannot be imported: {type(error).__name__}: {error}"
        raise InputError(described, problem) from error


@cache
def import_named() -> None:
    """Import the modules that `CROSSWIND_MODULES` names, which register classes and declare
    metrics."""
    for module in os.environ.get(MODULES_VARIABLE, "").split(","):
        if module.strip():
            _import(module.strip(), MODULES_VARIABLE)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == __name__.partition(".")[0]


@cache
def _registering_text(module: str, path: Path) -> str:
    """The text of a file, empty where it registers nothing."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise _unreadable(module, path, error) from None
    return text if "register(" in text else ""


def _unreadable(module: str, path: Path, error: Exception) -> InputError:
    return InputError(module, f"{path.name} cannot be read as Python: {error}")


def _read(module: str, path: Path, room: str) -> list[Facts]:
    try:
        body = _parsed(path)
    except (OSError, SyntaxError, ValueError) as error:
        raise _unreadable(module, path, error) from None
    facts_read = []
    for node in (statement for statement in body if isinstance(statement, ast.ClassDef)):
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and _word_of(decorator.func) == "register":
                try:
                    name = str(ast.literal_eval(decorator.args[0]))
                    kind = str(
                        next(
                            ast.literal_eval(word.value)
                            for word in decorator.keywords
                            if word.arg == "kind"
                        )
                    )
                except (IndexError, StopIteration, ValueError):
                    problem = (
                        f"line {node.lineno}: {node.name} must be registered as"
                        ' @register("its-name", kind="its kind")'
                    )
                    raise InputError(module, problem) from None
                if _room_of(kind) == room:
                    facts_read.append(_facts_of_node(node, name, kind, room, module, body))
    return facts_read


_read_once = cache(_read)


def facts_in_file(module: str, path: Path, room: str) -> list[Facts]:
    """The facts of the classes of a room in a file, read as lists read it. Raises `InputError`, on
    the module, where it cannot be read."""
    return _read(module, path, room)


def _parsed(path: Path) -> list[ast.stmt]:
    text = path.read_text(encoding="utf-8")
    if "knob(" in text or "register(" in text:
        return ast.parse(text, filename=str(path)).body
    return []


_parsed_base = cache(_parsed)
_file_of_base = cache(_file_of)


def _word_of(node: ast.expr) -> str:
    """`knob` of both `knob(...)` and `crosswind.knob(...)`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return ""


def _bases_of(
    node: ast.ClassDef, module: str, body: list[ast.stmt]
) -> Iterator[tuple[ast.ClassDef, str, list[ast.stmt]]]:
    """The classes of this package that a class is made of, the last named first, each with its
    module and that module's body."""
    for base in reversed(node.bases):
        for (
            statement
        ) in body:  # a base stands in this file or is imported from another one of the package
            if isinstance(statement, ast.ClassDef) and statement.name == _word_of(base):
                yield statement, module, body
            if (
                isinstance(statement, ast.ImportFrom)
                and statement.module
                and _is_ours(statement.module)
            ):
                names = [
                    word.name
                    for word in statement.names
                    if (word.asname or word.name) == _word_of(base)
                ]
                path = _file_of_base(statement.module) if names else None
                base_body = [] if path is None else _parsed_base(path)
                for base_node in (
                    statement_of_base
                    for statement_of_base in base_body
                    if isinstance(statement_of_base, ast.ClassDef)
                    and statement_of_base.name in names
                ):
                    yield base_node, statement.module, base_body


def _knobs_of_node(node: ast.ClassDef, module: str, body: list[ast.stmt]) -> dict[str, Knob]:
    """The knobs of a class in the order of a dataclass's fields: those of the bases first."""
    known = _knobs_read.get(node)
    if known is not None:
        return known
    read: dict[str, Knob] = {}
    for base in _bases_of(node, module, body):
        read |= _knobs_of_node(*base)
    for statement in node.body:
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.value, ast.Call)
            and _word_of(statement.value.func) == "knob"
        ):
            name = _word_of(statement.target)
            annotation = ast.unparse(statement.annotation)
            declared = _evaluate(statement.value, module)
            read[name] = declarations.knob_of(name, annotation, declared)
    _knobs_read[node] = read
    return read


_knobs_read: WeakKeyDictionary[ast.ClassDef, dict[str, Knob]] = WeakKeyDictionary()
"""Of class definitions that were read: many classes share a base."""


def _defined(node: ast.ClassDef, module: str, body: list[ast.stmt]) -> list[str]:
    """The public functions of a class and of its bases that have knobs: what it shares with other
    classes of its kind."""
    shared = [
        name
        for base in _bases_of(node, module, body)
        if _knobs_of_node(*base)
        for name in _defined(*base)
    ]
    functions = []
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and not statement.name.startswith("_"):
            functions.append(statement.name)
    return list(dict.fromkeys([*shared, *functions]))


def _facts_of_node(
    node: ast.ClassDef, name: str, kind: str, room: str, module: str, body: list[ast.stmt]
) -> Facts:
    knobs = _knobs_of_node(node, module, body)
    declared = {}
    for statement in node.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            label = _word_of(
                statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            )
            if label in _DECLARED and label not in knobs:
                declared[label] = _evaluate(statement.value, module)
    defines = tuple(_defined(node, module, body))
    doc = ast.get_docstring(node) or ""
    return Facts(
        name, kind, room, module, node.name, doc, tuple(knobs.values()), defines=defines, **declared
    )


def _evaluate(node: ast.expr, module: str) -> Any:
    # Only declarations of this package's files and of installed plug-ins reach this point, the same
    # code that an import would run.
    if isinstance(node, ast.Constant):
        return node.value
    try:
        return eval(
            compile(ast.Expression(node), module, "eval"),
            {"__builtins__": {}, "float": float},
            dict(_WORDS),
        )
    except Exception as error:  # what an import of the file would raise as well
        words = f"a declaration may use only {', '.join(sorted(_WORDS))} ({error})"
        if isinstance(error, NameError):
            problem = words
        else:
            problem = f"{type(error).__name__}: {error}"
        raise InputError(module, f"line {node.lineno}: {problem}") from None


def facts_of_class(cls: Any) -> Facts:
    """The facts of a class that is already imported, for classes of the running program; a contract
    test compares both readers."""
    import inspect

    knobs = declarations.knobs_of(cls)
    class_values = {}
    for key, value in vars(cls).items():
        if key not in [pair.name for pair in knobs]:
            class_values[key] = value
    declared = {key: class_values[key] for key in _DECLARED if key in class_values}
    bases: list[type] = cls.__mro__[:0:-1]
    shared = []
    for base in bases:
        if "__dataclass_fields__" in vars(base) and declarations.knobs_of(base):
            shared.append(base)
    pairs = [pair for shared_class in (*shared, cls) for pair in vars(shared_class).items()]
    functions = [
        key
        for key, value in pairs
        if inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod)
    ]
    defines = tuple(dict.fromkeys(key for key in functions if not key.startswith("_")))
    name = cls.registered_name
    kind = cls.registered_kind
    doc = inspect.cleandoc(cls.__doc__ or "")
    return Facts(
        name,
        kind,
        _room_of(kind),
        cls.__module__,
        cls.__qualname__,
        doc,
        knobs,
        defines=defines,
        **declared,
    )


def forget(room: str, name: str) -> None:
    """Take a class of the running program out again (tests and notebooks that define one name
    twice)."""
    _LIVE.pop((room, name), None)
