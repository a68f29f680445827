"""The files that a model's file reads beside itself: weights of an ONNX file that lie outside it,
and the modules of a function.

They are found without running anything. What a function reads in other ways, such as a file of data
that it opens, cannot be known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from crosswind.models.given.onnx_locations import external_locations

_BINARY = (".so", ".pyd")


def companions(file: Path, is_network: bool) -> dict[str, Path]:
    """By their paths relative to `file`'s folder, in order: the files beside `file` on which its
    answers depend, without itself.

    `is_network`: whether it is an ONNX file. A file that is named and not there is listed too.
    Raises `OSError`.
    """
    if is_network:
        return {location: file.parent / location for location in sorted(external_locations(file))}
    if file.suffix == ".py":
        return {
            module.relative_to(file.parent).as_posix(): module
            for module in sorted(local_modules(file))
        }
    return {}


def stamp(file: Path, is_network: bool) -> tuple[tuple[str, int, int], ...]:
    """Path, size and time of change in nanoseconds of a file and its companions: another one when
    any of them has changed.

    Raises `OSError`.
    """
    files = [file, *companions(file, is_network).values()]
    states = [(str(path), path.stat()) for path in files if path == file or path.exists()]
    return tuple((path, state.st_size, state.st_mtime_ns) for path, state in states)


def local_modules(file: Path) -> set[Path]:
    """The modules in the folder of a Python file that it imports, and those that they import in
    turn."""
    folder = file.parent
    module_files: set[Path] = set()
    waiting = [file]
    while waiting:
        module = waiting.pop()
        for name in _imported(module, folder):
            fresh = set(_files_of(folder, name)) - module_files - {file}
            module_files |= fresh
            waiting += [path for path in fresh if path.suffix == ".py"]
    return module_files


def _imported(module: Path, folder: Path) -> Iterator[str]:
    """The dotted names that a module imports, as from `folder`; none of what is no Python."""
    if module.suffix != ".py":
        return
    try:
        tree = ast.parse(module.read_bytes())
    except (SyntaxError, ValueError):  # told when it is imported
        return
    package = list(module.parent.relative_to(folder).parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                above = package[: len(package) - node.level + 1]
            else:
                above = []
            base = [*above, *(node.module.split(".") if node.module else [])]
            yield ".".join(base)
            yield from (
                ".".join([*base, alias.name]) for alias in node.names
            )  # a name may be a module
        elif isinstance(node, ast.Call) and _imports(node):
            yield from (
                word.value
                for word in node.args[:1]
                if isinstance(word, ast.Constant) and isinstance(word.value, str)
            )


def _imports(call: ast.Call) -> bool:
    """Whether a call is `import_module(...)` or `__import__(...)`."""
    if isinstance(call.func, ast.Attribute):
        name = call.func.attr
    else:
        name = getattr(call.func, "id", "")
    return name in ("import_module", "__import__")


def _files_of(folder: Path, name: str) -> Iterator[Path]:
    """The files that importing a dotted name reads below `folder`: each package's own, and the
    module's."""
    module_path = folder
    for name_part in name.split("."):
        if not name_part.isidentifier():
            return
        if (module_path / name_part).is_dir():
            module_path = module_path / name_part
            if (module_path / "__init__.py").is_file():
                yield module_path / "__init__.py"
            continue
        if (module_path / f"{name_part}.py").is_file():
            yield module_path / f"{name_part}.py"
        yield from (path for path in module_path.glob(f"{name_part}.*") if path.suffix in _BINARY)
        return
