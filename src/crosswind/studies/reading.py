"""Study files as plain values: YAML read strictly, overlays merged, `--set` applied.

The reader takes the part of YAML that a study needs and refuses the rest in one sentence: duplicate keys, anchors and aliases
(a few lines of them can expand to gigabytes), tags, several documents, anything but a mapping at the top. Numbers follow
YAML 1.2 (`1e-3` is a number, `no` is a word), which is what people expect who write JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from crosswind.core.errors import DataError, InputError, nearest, one_line, unknown
from crosswind.core.files import read_at_most

__all__ = ["apply_settings", "find_study", "merge", "parse", "read_study_file", "shipped_studies"]

MAX_BYTES = 1_000_000
NAMED = ("methods", "models")  # fields that are a list of names, or a mapping from names to settings
MAX_DEPTH = 40
SCALES = ("tiny", "small", "paper")
Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser is ten times faster and reads the same language


class _Loader(Base):  # type: ignore[misc]
    """A safe loader that counts depth and refuses what a study file never needs."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:bool", r"^(?:true|false|True|False|TRUE|FALSE)$", "tTfF"),
    ("tag:yaml.org,2002:int", r"^[-+]?[0-9]+$", "-+0123456789"),
    ("tag:yaml.org,2002:float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
    ("tag:yaml.org,2002:float", r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$", "-+."),
    ("tag:yaml.org,2002:null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
):
    for _letter in list(_first.replace("\0", "")) + ([""] if "\0" in _first else []):
        _Loader.yaml_implicit_resolvers.setdefault(_letter, []).append((_tag, re.compile(_pattern)))


def read_study_file(path: Path) -> dict[str, Any]:
    """The mapping in a study file. Raises `DataError` with the file, the line and what is wrong."""
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a study file (valid: a YAML file, or the name of a study: {_names()})")
    if not path.exists():
        near = nearest(path.name, [file.name for file in sorted(path.parent.glob("*.y*ml"))])
        guess = f", did you mean {near!r}?" if near else ""
        raise DataError(f"there is no study file {path}{guess} (valid: a YAML file, or the name of a study: {_names()})")
    try:
        raw = read_at_most(path, MAX_BYTES)
    except OSError as error:
        raise DataError(f"cannot read {path} as a study file: {error.strerror}") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text in UTF-8, so it is not a study file") from None
    return parse(text, str(path))


def parse(text: str, where: str) -> dict[str, Any]:
    """The mapping in `text`; `where` names it in errors."""
    value = _compose(text, where)
    if value is None:
        raise DataError(f"{where} is empty; a study file needs at least 'data', 'shifts' and 'methods'")
    if not isinstance(value, dict):
        raise DataError(f"{where} holds a {_kind(value)} at the top, not a mapping with keys such as 'data', 'shifts', 'methods'")
    return value


def _compose(text: str, where: str) -> Any:
    if "\0" in text:
        raise DataError(f"{where} holds NUL bytes, so it is not a study file")
    try:
        # Events first: aliases, tags and depth are refused before anything is built from them.
        depth, documents = 0, 0
        for event in yaml.parse(text, Loader=_Loader):
            line = (event.start_mark.line if event.start_mark else 0) + 1
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise DataError(f"{where}, line {line}: a second document begins; a study file holds one")
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise DataError(f"{where}, line {line}: anchors and aliases (& and *) are not allowed; write the value out")
            tag = getattr(event, "tag", None)
            if tag:
                raise DataError(f"{where}, line {line}: the tag {tag!r} is not allowed; write plain values")
            if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    raise DataError(f"{where}, line {line}: nested deeper than {MAX_DEPTH} levels")
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                depth -= 1
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            return None if node is None else _build(node, where, loader)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise DataError(f"{where} is not valid YAML: {_yaml_problem(error, text)}") from None
    except RecursionError:
        raise DataError(f"{where} is nested too deeply") from None


def _build(node: Any, where: str, loader: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        out: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise DataError(f"{where}, line {line}: a key must be a word, not a {key_node.id}")
            key = str(key_node.value)
            if key in out:
                raise DataError(f"{where}, line {line}: the key {key!r} stands twice in one mapping")
            out[key] = _build(value_node, where, loader)
        return out
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, where, loader) for item in node.value]
    line = node.start_mark.line + 1
    try:
        # The library's own constructors read 010 as eight and 1:30 as ninety (YAML 1.1).
        convert: Any = {"tag:yaml.org,2002:int": int, "tag:yaml.org,2002:float": _float}.get(node.tag)
        value = convert(node.value) if convert else loader.construct_object(node, deep=True)
    except (ValueError, OverflowError) as error:
        raise DataError(f"{where}, line {line}: {node.value!r} is not a value: {one_line(str(error), 200)}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"{where}, line {line}: {node.value!r} is not allowed; numbers must be finite")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 63:
        raise DataError(f"{where}, line {line}: {str(node.value)[:40]} is too large for a whole number of 64 bits")
    return value


def _float(text: str) -> float:
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


def _yaml_problem(error: yaml.YAMLError, text: str) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    if mark is None:
        return one_line(problem, 300)
    lines = text.splitlines()
    if mark.line < len(lines) and "\t" in lines[mark.line]:
        return f"line {mark.line + 1}: a tab; indent with spaces"
    return one_line(f"line {mark.line + 1}, column {mark.column + 1}: {problem}", 300)


def _kind(value: Any) -> str:
    return {list: "list", str: "text", int: "number", float: "number", bool: "true/false"}.get(type(value), type(value).__name__)


def merge(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `overlay` laid over it: mappings merge key by key, null removes a key, everything else replaces."""
    out = dict(base)
    for key, value in overlay.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
            out[key] = merge(out[key], value)
        else:
            out[key] = value
    return out


def apply_settings(study: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """`study` with `key=value` settings applied: a key is a dotted path, a value is read as YAML.

    A path may end in a new key (the study's own validation decides whether it exists); lists are addressed by position.
    """
    out: Any = _copy(study)
    for setting in settings:
        path, sign, text = setting.partition("=")
        if not sign or not all(word.strip() for word in path.split(".")):
            raise InputError("--set", f"{setting!r} is not of the form key=value, such as training.steps=100")
        value = _compose(text, f"--set {path.strip()}")
        _put(out, path.strip(), value)
    return dict(out)


def _put(root: Any, path: str, value: Any) -> None:
    place, words = root, path.split(".")
    index = 0
    while True:
        # A name may itself hold dots (cifar10.1): the longest run of words that is a key is one step.
        end = len(words)
        if isinstance(place, dict):
            while end > index + 1 and ".".join(words[index:end]) not in place:
                end -= 1
        else:
            end = index + 1
        word = ".".join(words[index:end])
        last = end == len(words)
        if isinstance(place, dict):
            if last:
                if value is None:
                    place.pop(word, None)
                else:
                    place[word] = value
                return
            if place.get(word) is None:
                place[word] = {}
            if index == 0 and word in NAMED and isinstance(place[word], list) and words[end] in place[word]:
                place[word] = dict.fromkeys(place[word], {})  # a list of names is their mapping to no settings
                place[word][words[end]] = {}
            place = place[word]
        elif isinstance(place, list):
            if not word.isdigit() or int(word) >= len(place):
                raise InputError(f"--set {path}", f"{word!r} is not a position in a list of {len(place)}", range(len(place)))
            if last:
                place[int(word)] = value
                return
            place = place[int(word)]
        else:
            raise InputError(f"--set {path}", f"{'.'.join(words[:index])!r} holds {place!r}, which has no {word!r} inside")
        index = end


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def shipped_studies() -> dict[str, Path]:
    """The studies that travel with the package, by name (`jeon2025/sizes`)."""
    folder = _shipped_folder()
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.yaml"))}


def find_study(word: str) -> tuple[str, Path]:
    """The name and file of a study given by path or by shipped name."""
    path = Path(word)
    shipped = shipped_studies()
    if word in shipped and not path.is_file():
        return word, shipped[word]
    if path.exists() or path.suffix in (".yaml", ".yml", ".json") or path.is_absolute():
        for name, known in shipped.items():
            if path.exists() and known.samefile(path):
                return name, path
        return path.stem or "study", path
    raise unknown("STUDY", "study", word, shipped)


def _shipped_folder() -> Path:
    package = Path(__file__).resolve().parents[1]
    inside = package / "_studies"
    return inside if inside.is_dir() else package.parents[1] / "studies"


def _names() -> str:
    return ", ".join(shipped_studies())
