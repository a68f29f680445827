"""Study files as plain values: YAML read strictly, overlays merged, `--set` applied; what is wrong with a field in a sentence.

The reader takes the part of YAML that a study needs and refuses the rest in one sentence: duplicate keys, anchors and aliases
(a few lines of them can expand to gigabytes), tags, several documents, anything but a mapping at the top. Numbers follow
YAML 1.2 (`1e-3` is a number, `no` is a word), which is what people expect who write JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

import yaml

from crosswind.core.errors import DataError, InputError, nearest, one_line, shown, unknown
from crosswind.core.files import read_at_most
from crosswind.core.knobs import knobs_of
from crosswind.training.settings import TrainingSettings

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

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


def field_error(error: ValidationError, model: type[BaseModel], where: str, inside: str = "") -> InputError:
    """The sentence for what is wrong with the values of `model`; `where` names the file, `inside` the part of it."""
    # A union reports each of its branches; the deepest report is about the branch that the user meant.
    found = max(error.errors(include_url=False), key=lambda item: (item["type"] == "extra_forbidden", len(item["loc"])))
    words = [str(word) for word in found["loc"]]
    path = [word for word in words if not _is_branch(word)]
    field = f"{where}: {inside}{'.'.join(path)}" if path else where
    given = found.get("input")
    quoted = shown(given)
    kind, context = found["type"], found.get("ctx", {})
    if kind == "extra_forbidden":
        valid = _fields_at(model, path[:-1])
        training = nearest(path[-1], [item.name for item in knobs_of(TrainingSettings)]) if len(path) == 1 else None
        guess = f"training.{training}" if training is not None else nearest(path[-1], valid)
        return InputError(field, f"unknown field {path[-1]!r}" + (f", did you mean {guess!r}?" if guess else ""), valid)
    if kind == "missing":
        return InputError(field, "is missing")
    if kind == "literal_error":
        choices = [choice.strip().strip("'") for choice in str(context.get("expected", "")).replace(" or ", ", ").split(",")]
        guess = nearest(str(given), choices)
        return InputError(field, f"{quoted} is not valid" + (f", did you mean {guess!r}?" if guess else ""), choices)
    if kind == "string_too_long" and not (words and words[-1] == "[key]"):
        return InputError(field, f"must have at most {context.get('max_length')} characters, not {len(str(given)):,}")
    if words and words[-1] == "[key]" and kind in ("string_too_short", "string_too_long"):
        return InputError(field.removesuffix("."), f"a name must have 1 to 100 characters, not {quoted}")
    if kind in ("too_short", "string_too_short"):
        return InputError(field, "must not be empty")
    if kind == "string_pattern_mismatch":
        return InputError(field, f"{quoted} may hold only letters, digits, spaces and _ . + : / @ -")
    others = [item for item in error.errors(include_url=False) if _plain_path(item) == path]
    if path[-2:-1] == ["roles"]:
        return InputError(field, f"must be a whole number of rows of each cell, or a share between 0 and 1, not {quoted}")
    expected = " or ".join(dict.fromkeys(_wanted(item).removeprefix("must be ") for item in others))
    return InputError(field, f"{'' if expected.startswith('must') else 'must be '}{expected}, not {quoted}")


def _plain_path(item: Any) -> list[str]:
    return [str(word) for word in item["loc"] if not _is_branch(str(word))]


_WANTED = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
}


def _wanted(item: Any) -> str:
    if item["type"] in _WANTED:
        return _WANTED[item["type"]]
    bounds = {"greater_than": "above", "greater_than_equal": "at least", "less_than": "below", "less_than_equal": "at most"}
    if item["type"] in bounds:
        ((name, value),) = ((name, value) for name, value in item["ctx"].items() if name in ("gt", "ge", "lt", "le"))
        return f"must be {bounds[item['type']]} {value:g}"
    text = str(item["msg"])
    text = text.removeprefix("Value error, ").removeprefix("Input should be ")
    return text if text.startswith("must") else f"must be {text}"


def _is_branch(word: str) -> bool:
    return "[" in word or word.startswith("constrained-") or word in ("str", "int", "float", "bool", "ModelSide")


def _fields_at(model: type[BaseModel], path: Sequence[str]) -> list[str]:
    """The fields of the model at a path of the study file."""
    words = iter(path)
    for word in words:
        if word not in model.model_fields:
            continue  # a place in a list
        annotation = model.model_fields[word].annotation
        model = next(_models_in(annotation), model)
        if get_origin(annotation) is dict:
            next(words, None)  # a name of the user's
    return list(model.model_fields)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if hasattr(annotation, "model_fields"):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
