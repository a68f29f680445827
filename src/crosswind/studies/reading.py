"""Study files as plain values: YAML read strictly, overlays merged, `--set` applied; what is wrong
with a field in a sentence.

Refused are duplicate keys, anchors and aliases (a few lines of them can expand to gigabytes), tags,
several documents, and anything but a mapping at the top. Numbers follow YAML 1.2 (`1e-3` is a
number, `no` is a word, `010` is ten), as in JSON.
"""

from __future__ import annotations

import copy
import math
import re
import shlex
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

import yaml

from crosswind.core.errors import (
    CrosswindError,
    DataError,
    InputError,
    nearest,
    one_line,
    share_hint,
    shown,
    unknown,
)
from crosswind.core.files import read_at_most
from crosswind.core.knobs import Knob, knobs_of
from crosswind.core.registry import facts
from crosswind.training.settings import TrainingSettings

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

MAX_BYTES = 1_000_000
MAX_DEPTH = 40
NAMED = ("methods", "models", "estimators")
"""Fields that are a list of names, or a mapping from names to settings."""
NAMED_ENTRIES = ("data", "shifts", "sizes", "sets", "models", "methods", "estimators")
"""Fields whose keys are names of the user's."""
_LOADER: Any = getattr(
    yaml, "CSafeLoader", yaml.SafeLoader
)  # the C parser is ten times faster and reads the same language
_WORDS: dict[str, bool | None] = {"": None, "~": None}
_WORDS |= {
    form: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for form in (word, word.title(), word.upper())
}
_TABLE_ENDINGS = (".csv", ".tsv", ".parquet")
_WHOLE = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def read_study_file(path: Path) -> dict[str, Any]:
    """The mapping in a study file. Raises `DataError` with the file, the line and what is wrong."""
    valid = f"(valid: a YAML file, or the name of a study: {', '.join(shipped_studies())})"
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a study file {valid}")
    if path.suffix.lower() in _TABLE_ENDINGS and path.is_file():
        problem = f"{path} is a table, and a study is needed; crosswind init {shlex.quote(str(path))} writes one for it"
        raise DataError(problem)
    if not path.exists():
        choices = [file.name for file in sorted(path.parent.glob("*.y*ml"))]
        suggestion = nearest(path.name, choices)
        problem = f"there is no study file {path}{f', did you mean {suggestion!r}?' if suggestion else ''} {valid}"
        raise DataError(problem)
    try:
        text = read_at_most(path, MAX_BYTES).decode("utf-8-sig")
        return parse(text, str(path))
    except OSError as error:
        raise DataError(f"cannot read {path} as a study file: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text in UTF-8, so it is not a study file") from None


def parse(text: str, where: str) -> dict[str, Any]:
    """The mapping in `text`; `where` names it in errors."""
    value = _read(text, where)
    if value is None:
        raise DataError(
            f"{where} is empty; a study file needs at least 'data', 'shifts' and 'methods'"
        )
    if not isinstance(value, dict):
        names = {list: "list", str: "text", int: "number", float: "number", bool: "true/false"}
        problem = (
            f"{where} holds a {names[type(value)]} at the top, not a mapping with keys such as"
            " 'data', 'shifts', 'methods'"
        )
        raise DataError(problem)
    return value


def _read(text: str, where: str) -> Any:
    if "\0" in text:
        raise DataError(f"{where} holds NUL bytes, so it is not a study file")
    value, documents = None, 0
    try:
        events = yaml.parse(text, Loader=_LOADER)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _refused(event, where, "a second document begins; a study file holds one")
                value = _value(next(events), events, where, 0)
    except yaml.YAMLError as error:
        raise DataError(f"{where} is not valid YAML: {_yaml_problem(error, text)}") from None
    except UnicodeEncodeError:
        raise DataError(f"{where} is not text in UTF-8") from None
    return value


def _value(event: Any, events: Iterator[Any], where: str, depth: int) -> Any:
    """The value that begins with `event`, which the parser has just told."""
    _check_plain(event, where)
    if isinstance(event, yaml.ScalarEvent):
        if event.implicit[0]:
            return _scalar(event, where)
        return event.value
    if depth == MAX_DEPTH:
        raise _refused(event, where, f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(event, yaml.SequenceStartEvent):
        sequence = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            sequence.append(_value(event, events, where, depth + 1))
        return sequence
    mapping: dict[str, Any] = {}
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        _check_plain(key, where)
        if not isinstance(key, yaml.ScalarEvent):
            kind = "sequence" if isinstance(key, yaml.SequenceStartEvent) else "mapping"
            raise _refused(key, where, f"a key must be a word, not a {kind}")
        if key.value in mapping:
            raise _refused(key, where, f"the key {key.value!r} stands twice in one mapping")
        mapping[key.value] = _value(next(events), events, where, depth + 1)
    return mapping


def _check_plain(event: Any, where: str) -> None:
    if event.anchor is not None:
        raise _refused(
            event, where, "anchors and aliases (& and *) are not allowed; write the value out"
        )
    if getattr(event, "tag", None):
        raise _refused(event, where, f"the tag {event.tag!r} is not allowed; write plain values")


def _scalar(event: Any, where: str) -> Any:
    text: str = event.value
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        if len(text) > 1000 or abs(int(text)) >= 1 << 63:
            raise _refused(event, where, f"{text[:40]} is too large for a whole number of 64 bits")
        return int(text)
    if _NOT_FINITE.fullmatch(text) or _NUMBER.fullmatch(text) and not math.isfinite(float(text)):
        raise _refused(
            event, where, f"{one_line(text, 80)!r} is not allowed; numbers must be finite"
        )
    if _NUMBER.fullmatch(text):
        return float(text)
    return text


def is_value(text: str) -> bool:
    """Whether a word without quotes is no text in a study file: a number, truth or nothing."""
    patterns = (_WHOLE, _NUMBER, _NOT_FINITE)
    return text in _WORDS or any(pattern.fullmatch(text) for pattern in patterns)


def _refused(event: Any, where: str, problem: str) -> DataError:
    return DataError(f"{where}, line {event.start_mark.line + 1}: {problem}")


def _yaml_problem(error: yaml.YAMLError, text: str) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    if mark is None:
        return one_line(problem, 300)
    if "\t" in "".join(text.splitlines()[mark.line : mark.line + 1]):
        return f"line {mark.line + 1}: a tab; indent with spaces"
    return one_line(f"line {mark.line + 1}, column {mark.column + 1}: {problem}", 300)


def merge(
    base: Mapping[str, Any],
    overlay: Mapping[str, Any],
    path: tuple[str, ...] = (),
    parent: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """`base` with `overlay` laid over it: mappings merge key by key, null removes a key, everything
    else replaces. Null is the value of a setting that may have none and has something by default.

    `path`: where in a study both stand. `parent`: what holds them there.
    """
    out = dict(base)
    for key, value in overlay.items():
        if value is None and not _may_be_none((*path, key), {**base, **overlay}, parent):
            out.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
            out[key] = merge(out[key], value, (*path, key), {**base, **overlay})
        else:
            out[key] = value
    return out


def _may_be_none(
    path: Sequence[str], entry: Mapping[str, Any], parent: Mapping[str, Any] | None
) -> bool:
    """Whether the field at a path of a study is a setting of which null says none, and leaving it
    out something else, such as `training.patience`. `entry` holds it, and `parent` that."""
    *places, name = path
    knobs: Sequence[Knob] = ()
    if places[-1:] == ["training"] and (len(places) == 1 or places[0] == "methods"):
        knobs = knobs_of(TrainingSettings)
    elif len(places) == 2 and places[0] in ("methods", "models", "estimators"):
        knobs = _knobs_of_entry(places[0], entry.get(places[0].removesuffix("s"), places[1]))
    elif len(places) == 3 and places[0] == "data" and places[2] == "options":
        knobs = _knobs_of_entry("sources", (parent or {}).get("source"))
    return any(
        knob.name == name and "None" in knob.annotation and knob.default is not None
        for knob in knobs
        if not knob.required
    )


def _knobs_of_entry(room: str, name: Any) -> Sequence[Knob]:
    """The settings of a method, model, estimator or source; none of what there is not."""
    if not isinstance(name, str):
        return ()
    with suppress(CrosswindError):
        return facts(room, name).knobs
    return ()


def apply_settings(
    study: Mapping[str, Any], settings: Sequence[str], unscaled: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """`study` with `key=value` settings applied: a key is a dotted path, a value is read as YAML,
    null takes the key out, but where it is the value of a setting (see `merge`).

    A path may end in a new key (the study's own validation decides whether it exists); lists are
    addressed by position. `unscaled`: the study without its scale. An entry that the scale has
    taken out may be taken out again, so that one command serves every scale.
    """
    out = copy.deepcopy(dict(study))
    for setting in settings:
        path, sign, text = setting.partition("=")
        words = path.strip().split(".")
        if not sign or not all(word.strip() for word in words):
            raise InputError(
                "--set", f"{setting!r} is not of the form key=value, such as training.steps=100"
            )
        if not text.strip():
            # A shell writes this for `key=$VARIABLE` where the variable is not set.
            problem = "names no value; null takes the key out, and '' in quotes is an empty text"
            raise InputError(f"--set {path.strip()}", problem)
        _set_value(out, words, _read(text, f"--set {path.strip()}"), unscaled or {})
    return out


def _set_value(container: Any, words: list[str], value: Any, unscaled: Mapping[str, Any]) -> None:
    path = f"--set {'.'.join(words)}"
    done = 0
    places: list[str] = []
    parent: Any = None
    while True:
        key: Any = words[done]
        end = done + 1
        if isinstance(container, dict):
            # A name may itself hold dots (cifar10.1): the longest run of words that is a key is one
            # step.
            end = next(
                (
                    last
                    for last in range(len(words), end, -1)
                    if ".".join(words[done:last]) in container
                ),
                end,
            )
            key = ".".join(words[done:end])
        elif not isinstance(container, list):
            problem = f"{'.'.join(words[:done])!r} holds {container!r}, which has no {key!r} inside"
            raise InputError(path, problem)
        elif key.isdigit() and int(key) < len(container):
            key = int(key)
        else:
            raise InputError(
                path,
                f"{key!r} is not a position in a list of {len(container)}",
                range(len(container)),
            )
        if end == len(words):
            break
        if isinstance(container, dict) and container.get(key) is None:
            container[key] = {}
        if (
            done == 0
            and key in NAMED
            and isinstance(container[key], list)
            and (words[end] in container[key] or (value is None and not words[end].isdigit()))
            and all(isinstance(name, str) for name in container[key])
        ):
            container[key] = {
                name: {} for name in container[key]
            }  # a list of names is their mapping to no settings
        parent, container = container, container[key]
        places.append(str(key))
        done = end
    if value is not None or not isinstance(container, dict):
        container[key] = value
    elif _may_be_none((*places, key), container, parent):
        container[key] = None
    elif key in container:
        del container[key]
    elif (
        len(places) == 1
        and places[0] in NAMED_ENTRIES
        and key not in (unscaled.get(places[0]) or ())
    ):
        raise unknown(path, f"entry of {places[0]}", key, container)


def shipped_studies() -> dict[str, Path]:
    """The studies that travel with the package, by name (`jeon2025/sizes`)."""
    package = Path(__file__).resolve().parents[1]
    if (package / "_studies").is_dir():
        folder = package / "_studies"
    else:
        folder = package.parents[1] / "studies"
    return {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for path in sorted(folder.rglob("*.yaml"))
    }


def study_name(path: Path) -> str:
    """The name of a study that has none of its own: that of its file, in the letters that names of
    studies have."""
    letters = unicodedata.normalize("NFKD", path.stem).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9 _.+:/@-]", "-", letters).strip() or "study"


def find_study(word: str) -> tuple[str, Path]:
    """The name and file of a study given by path or by shipped name."""
    path = Path(word)
    shipped = shipped_studies()
    if word in shipped and not path.is_file():
        return word, shipped[word]
    if path.exists() or path.suffix in (".yaml", ".yml", ".json") or path.is_absolute():
        shipped_name = next(
            (name for name, file in shipped.items() if path.exists() and file.samefile(path)),
            None,
        )
        return shipped_name or study_name(path), path
    raise unknown("STUDY", "study", word, shipped)


def shipped_file_of(study: str) -> str | None:
    """The shipped name of the file that describes a study: its own, or that of the study of which a
    scale is called so (`jeon2025/transfer` is of `jeon2025/controlled`)."""
    shipped = shipped_studies()
    if study in shipped:
        return study
    names_a_scale = f"\n    name: {study}\n"
    return next(
        (name for name, path in shipped.items() if names_a_scale in path.read_text("utf-8")), None
    )


_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "greater_than": "above {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "below {lt:g}",
    "less_than_equal": "at most {le:g}",
}


def field_error(
    error: ValidationError, model: type[BaseModel], where: str, inside: str = ""
) -> InputError:
    """The sentence for what is wrong with the values of `model`; `where` names the file, `inside`
    the part of it."""
    reports = error.errors(include_url=False)
    # A union reports each of its branches; the deepest report is about the branch that the user
    # meant.
    deepest = max(
        reports, key=lambda report: (report["type"] == "extra_forbidden", len(report["loc"]))
    )
    path = _path(deepest)
    value = deepest.get("input")
    kind = deepest["type"]
    is_key = deepest["loc"][-1:] == ("[key]",)
    context = deepest.get("ctx", {})
    if path:
        field = f"{where}: {inside}{'.'.join(path)}"
    else:
        field = where
    if kind == "extra_forbidden":
        valid = _fields_at(model, path[:-1], deepest["loc"])
        return _unknown_field(field, path, valid)
    if kind == "missing":
        about = _fields_at(model, path[:-1], deepest["loc"])[path[-1]].description
        return InputError(field, f"is missing ({about})" if about else "is missing")
    if kind == "literal_error":
        choices = re.findall(r"'([^']*)'", context["expected"])
        meant = _did_you_mean(nearest(str(value), choices))
        return InputError(field, f"{shown(value)} is not valid{meant}", choices)
    if is_key and kind in ("string_too_short", "string_too_long"):
        problem = f"a name must have 1 to 100 characters, not {shown(value)}"
        return InputError(field.removesuffix("."), problem)
    if kind == "string_too_long":
        problem = f"must have at most {context['max_length']} characters, not {len(str(value)):,}"
        return InputError(field, problem)
    if kind in ("too_short", "string_too_short"):
        return InputError(field, "must not be empty")
    if kind == "string_pattern_mismatch":
        return InputError(field, _name_problem(str(value)))
    if path[-2:-1] == ["roles"]:
        problem = "must be a whole number of rows of each cell, or a share between 0 and 1, not"
        return InputError(field, f"{problem} {shown(value)}{share_hint(value)}")
    expectations = [_expectation(report) for report in reports if _path(report) == path]
    expected = " or ".join(dict.fromkeys(expectations))
    problem = f"must be {expected}, not {shown(value)}".replace("must be must", "must")
    hint = _percent_hint(value, expected, context)
    return InputError(field, problem + hint + _form_of(expected, value, model, path))


def _name_problem(name: str) -> str:
    """Why a name that a study gives is none."""
    foreign = sorted({sign for sign in name if not sign.isascii()})
    if not foreign:
        return f"{shown(name)} may hold only letters, digits, spaces and _ . + : / @ -"
    return (
        f"{shown(name)} holds {', '.join(foreign[:5])}, and a name that a study gives is typed in"
        " commands and stands in names of files: letters a to z and A to Z, digits, spaces and"
        " _ . + : / @ -; attributes, values and texts may be of any script"
    )


def _percent_hint(value: Any, expected: str, context: Mapping[str, Any]) -> str:
    """How a percentage is written for a field that is a number of at most 1, or for text that ends
    with a sign of percent."""
    at_most_one = 1 in (context.get("le"), context.get("lt"))
    is_word = "a number" in expected and isinstance(value, str)
    return share_hint(value) if is_word or at_most_one else ""


def _form_of(expected: str, value: Any, model: type[BaseModel], path: Sequence[str]) -> str:
    """How a value of another form is written: a text in a list of its own, and the entries of a
    mapping of the study's as the schema has them."""
    if expected == "a list" and isinstance(value, str) and value:
        return f"; write [{value}]"
    if expected == "a mapping" and len(path) == 1:
        about = _fields_at(model, (), ())[path[0]].description
        return f" ({about})" if about else ""
    return ""


def _unknown_field(field: str, path: Sequence[str], valid: Mapping[str, Any]) -> InputError:
    """The sentence for a field that there is not, with the nearest one, also of training."""
    guess = next((name for name in valid if name.casefold() == path[-1].casefold()), None)
    if guess is None:
        names = [knob.name for knob in knobs_of(TrainingSettings)] if len(path) == 1 else []
        settings = [name for name in names if name not in valid]
        guess = nearest(path[-1], [*valid, *settings])
        if guess in settings:
            guess = f"training.{guess}"
    problem = f"unknown field {path[-1]!r}{_did_you_mean(guess)}"
    return InputError(field, problem, valid)


def _did_you_mean(guess: str | None) -> str:
    return f", did you mean {guess!r}?" if guess else ""


def _expectation(report: Any) -> str:
    """The form that a value must have, by a report of pydantic."""
    if report["type"] in _WANTED:
        return _WANTED[report["type"]].format(**report.get("ctx", {}))
    return _own_words(report)


def _own_words(report: Any) -> str:
    return str(report["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")


def _path(report: Any) -> list[str]:
    """The path of a report in the study file, without the branches of unions that it went
    through."""
    words = [str(word) for word in report["loc"]]
    user_names = (
        words[-1:] if report["type"] == "extra_forbidden" else []
    )  # a name of the user's, whatever it looks like
    branch = re.compile(
        r".*\[|constrained-|(str|int|float|bool|SideSpec|RowsSpec|Claim|PooledClaim|DeriveSpec)$",
        re.S,
    )
    return [
        word for word in words[: len(words) - len(user_names)] if not branch.match(word)
    ] + user_names


def _fields_at(
    model: type[BaseModel], path: Sequence[str], branches: Sequence[Any]
) -> Mapping[str, Any]:
    """The fields of the model at a path of the study file; `branches` name the model of a union that
    a report is about."""
    words = iter(path)
    for word in words:
        if word not in model.model_fields:
            continue  # a place in a list
        annotation = model.model_fields[word].annotation
        models = list(_models_in(annotation)) or [model]
        model = next((choice for choice in models if choice.__name__ in branches), models[0])
        if get_origin(annotation) is dict:
            next(words, None)  # a name of the user's
    return model.model_fields


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if hasattr(annotation, "model_fields"):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
