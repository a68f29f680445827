"""The shape of the house: what each room may load, and what no tracked file may hold."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import crosswind

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "crosswind"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
# A sweep over an empty room proves nothing: raise this as the package grows.
MODULES_AT_LEAST = 100

# Importing these rooms and modules, as listing, planning, scoring and reporting do, loads none of
# the libraries below.
LIGHT = (
    "core",
    "shifts",
    "evaluation",
    "reports",
    "cli",
    "data",
    "studies/spec",
    "studies/plan",
    "storage",
    "execution/engines",
    "api",
)
LIGHT_SOURCES = ("data/sources",)
HEAVY = ("torch", "torchvision", "sklearn", "pandas", "scipy.stats")
HEAVY_FOR_SOURCES = ("torch", "torchvision", "sklearn", "pandas", "scipy", "PIL", "polars")


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: there is no list of tracked files")
    return [
        ROOT / name
        for name in listed.stdout.decode().split("\0")
        if name and (ROOT / name).is_file()
    ]


def _dotted(path: Path) -> str:
    """The name by which a file is imported."""
    module = path.parent if path.name == "__init__.py" else path.with_suffix("")
    return ".".join(module.relative_to(PACKAGE.parent).parts)


def test_number_of_modules_is_plausible() -> None:
    assert len(MODULES) >= MODULES_AT_LEAST


def test_every_room_is_a_package_with_a_docstring() -> None:
    rooms = sorted({path.parent for path in MODULES})
    assert len(rooms) >= 1
    for room in rooms:
        text = (room / "__init__.py").read_text(encoding="utf-8")
        assert ast.get_docstring(ast.parse(text)), f"{room.name}/__init__.py says nothing"


def test_public_names_of_the_package_resolve() -> None:
    assert sorted({"__version__", *crosswind._HOMES}) == sorted(crosswind.__all__)
    for name in crosswind.__all__:
        assert getattr(crosswind, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = crosswind.no_such_name


def test_version_is_the_one_of_the_project_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert crosswind.__version__ == project["version"]
    assert f"## [{crosswind.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def _loaded_by(modules: list[str]) -> set[str]:
    code = (
        "import json, sys\n"
        + "".join(f"import {name}\n" for name in modules)
        + "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return set(json.loads(done.stdout.splitlines()[-1]))


def _modules_of(room_names: tuple[str, ...], without: tuple[str, ...] = ()) -> list[str]:
    modules = []
    for path in MODULES:
        name = path.relative_to(PACKAGE).with_suffix("").as_posix()
        inside = [
            room_name
            for room_name in room_names
            if name == room_name or name.startswith(room_name + "/")
        ]
        if inside and not any(name.startswith(room_name + "/") for room_name in without):
            modules.append(_dotted(path))
    return modules


def test_light_rooms_load_no_heavy_library() -> None:
    modules = _modules_of(LIGHT, without=LIGHT_SOURCES)
    assert len(modules) >= 5
    assert sorted(set(HEAVY) & _loaded_by(modules)) == []


def test_the_help_needs_the_definitions_of_the_verbs_alone() -> None:
    """All modules of the command line, without what their commands import when they run."""
    modules = _modules_of(("cli",))
    assert len(modules) >= 21
    loaded = _loaded_by(modules)
    assert sorted(loaded & {*HEAVY, "numpy", "crosswind.core.registry", "tomllib"}) == []


def test_sources_load_no_table_or_image_library() -> None:
    modules = _modules_of(LIGHT_SOURCES)
    if not modules:
        pytest.skip("no source yet")
    assert sorted(set(HEAVY_FOR_SOURCES) & _loaded_by(modules)) == []


def test_test_folders_mirror_the_package() -> None:
    folders = {
        path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")
    }
    assert len(folders) >= 2
    other_folders = ("benchmarks", "contract", "docs", "examples")
    rooms = {path.parent.relative_to(PACKAGE) for path in MODULES} | {
        Path(name) for name in other_folders
    }
    assert sorted(map(str, folders - rooms)) == []


# Written in pieces, so that this file does not hold what it looks for.
PLACES = [
    "/" + r"(work|root|home/[a-z0-9_-]+|Users/[A-Za-z0-9_-]+|opt)/",
    "https?://("
    + "|".join(
        ["py" + "pi", "files[.]python" + "hosted", "registry[.]npm" + "js", "deb[.]deb" + "ian"]
    )
    + ")",
    "py" + r"pi\.org",
]


def test_no_tracked_file_holds_a_machine_path_or_a_registry_host() -> None:
    pattern = re.compile("|".join(PLACES))
    looked_at, matches = 0, []
    for path in _tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        looked_at += 1
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                matches.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert looked_at >= 8
    assert matches == []


def test_the_root_holds_only_what_a_reader_looks_for_there() -> None:
    """A file that a program left in the folder where it ran was once committed."""
    in_root = [path for path in _tracked() if path.parent == ROOT]
    endings = {path.suffix for path in in_root}
    assert len(in_root) >= 8
    assert endings <= {"", ".md", ".cff", ".yml", ".toml", ".lock"}, endings


def test_lock_file_holds_hashes_and_no_addresses() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if "://" in line or line.startswith("-")]
    pinned = [line for line in lines if line and not line.startswith((" ", "#"))]
    assert len(pinned) >= 50
    assert not [line for line in pinned if "==" not in line or not line.endswith("\\")]
    assert "torch==2.14.1 \\" in pinned
    assert "torchvision==0.29.1 \\" in pinned


def test_no_room_or_module_has_a_word_for_leftovers() -> None:
    words = {"utils", "util", "misc", "helpers", "helper", "manager", "common"}
    assert [
        _dotted(path)
        for path in PACKAGE.rglob("*.py")
        if words & set(re.split(r"[_./-]", _dotted(path)))
    ] == []


def _imports_of(path: Path, names: set[str]) -> set[str]:
    """Modules of the package that a file imports anywhere, also for types and inside functions."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            modules |= (inside & names) or {node.module}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    return modules & names - {_dotted(path)}


def test_no_files_import_each_other_in_a_circle() -> None:
    # A package's own file is read too: it hands on names of its modules, for types or on first use.
    files = sorted(PACKAGE.rglob("*.py"))
    names = {_dotted(path) for path in files}
    assert "crosswind.data.prepared" in names
    graph = {_dotted(path): _imports_of(path, names) for path in files}
    assert sum(map(len, graph.values())) > 3 * len(graph)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_every_decision_has_a_number_of_its_own() -> None:
    numbers = [path.name[:4] for path in sorted((ROOT / "decisions").glob("*.md"))]
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
