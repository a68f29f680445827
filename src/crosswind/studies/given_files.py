"""Files that settings of a study name: where they lie, and what they and the files that they read
hold."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from crosswind.core.errors import InputError
from crosswind.core.registry import facts
from crosswind.models.folders import contents_hash, hash_once
from crosswind.models.given.companions import companions

Values = Mapping[str, Any]

NO_FILE = "there is no file"
"""How the sentence about a file begins that a study names and nobody has."""


class GivenFile(NamedTuple):
    """A file of a model that is not trained here.

    `setting`: the knob's value with the file's whole path. `keyed`: what a key knows of it: its
    hash, the function in it (`module:function`), and the hashes of its companions by their relative
    paths, if it has any. `read`: the hash of each file by its whole path, to be compared with what
    lies there later.
    """

    setting: str
    keyed: list[Any]
    read: dict[str, str]


def given_file(model: str, name: str, knobs: Values, folder: Path | None, path: str) -> GivenFile:
    """The file that the knob `name` of a model names, and what it reads beside itself. Raises
    `InputError`."""
    file_name, colon, function = (
        str(knobs[name]).rpartition(":") if name == "function" else (str(knobs[name]), "", "")
    )
    file = place_of(file_name, folder, path)
    if file.suffix == ".py" or not colon:
        setting = f"{file}{colon}{function}"
    else:
        setting = knobs[name]
    hashes = {file: hash_of(file, file_name, path)}
    keyed: list[Any] = [hashes[file], function]
    try:
        is_network = model == "onnx" or file.suffix == ".onnx"
        beside = companions(file, is_network)
    except OSError as error:
        raise InputError(path, f"cannot read the file {file_name!r}: {error.strerror}") from None
    for relative, companion in beside.items():
        if not companion.is_file():
            raise InputError(
                path,
                f"{file_name!r} has weights in {relative!r} beside it, and there is no such file",
            )
        hashes[companion] = hash_of(companion, relative, path)
    if beside:
        keyed.append({relative: hashes[companion] for relative, companion in beside.items()})
    return GivenFile(
        setting, keyed, {str(read_path): sha256 for read_path, sha256 in hashes.items()}
    )


def place_of(setting: str, folder: Path | None, path: str) -> Path:
    """The file that a setting names, looked for beside the study first; or that of a module."""
    if not setting:
        raise InputError(path, "must name a file; a function is written module:function")
    is_file = bool(Path(setting).suffix)
    name = setting if is_file else f"{setting.replace('.', '/')}.py"
    for candidate in ([] if folder is None else [folder / name]) + [Path(name)]:
        if candidate.is_file():
            # A link to a network lies beside its weights, as in the cache of the hub; a module's
            # neighbours are those of the file.
            if candidate.suffix == ".py":
                return candidate.resolve()
            return candidate.absolute()
    try:
        spec = None if is_file else importlib.util.find_spec(setting)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        module = "" if is_file else f" and no module {setting!r}"
        looked_in = "" if Path(name).is_absolute() else " in this folder"
        if looked_in and folder is not None:
            looked_in = " beside the study or in this folder"
        raise InputError(path, f"{NO_FILE} {name!r}{module}{looked_in}")
    return Path(spec.origin)


def hash_of(file: Path, shown_name: str, path: str) -> str:
    """The SHA-256 of a file that errors call `shown_name`. Raises `InputError` on `path`."""
    try:
        return hash_once(file)
    except OSError as error:
        raise InputError(path, f"cannot read the file {shown_name!r}: {error.strerror}") from None


class Recorded(NamedTuple):
    """A file or folder that runs read, where it lay, and its hash then; `kind` is that of a folder,
    see `contents_hash`."""

    location: str
    kind: str
    sha256: str


def recorded_files(spec: Values) -> list[Recorded]:
    """The files that a study named and a job reads, as its specification has them; none of one that
    an older version wrote."""
    recorded = [Recorded(location, "", sha256) for location, sha256 in spec.get("read", {}).items()]
    model = spec.get("model")
    if model is None:
        return recorded
    return [*recorded, *_knob_files(model["name"], model["knobs"])]


def _knob_files(name: str, knobs: Values) -> list[Recorded]:
    """The files and folders whose hashes stand beside them among a model's knobs, and among those
    of the model inside it."""
    form = facts("models", name).built
    files = []
    for knob, location in knobs.items():
        sha256 = knobs.get(f"{knob}_sha256")
        if isinstance(location, str) and isinstance(sha256, str):
            files.append(
                Recorded(location, "" if form is None else form.folders.get(knob, ""), sha256)
            )
    if form is not None and form.of and knobs.get(form.of) and knobs.get("settings"):
        files += _knob_files(knobs[form.of], knobs["settings"])
    return files


def changed_files(specs: Mapping[str, Values]) -> dict[str, list[str]]:
    """The files and folders that hold something else than when they were read -> the keys of the
    jobs that read them.

    Those that are not there are left out: a store may lie on another machine than the models.
    """
    readers: dict[Recorded, list[str]] = {}
    for key, spec in specs.items():
        for recorded in recorded_files(spec):
            readers.setdefault(recorded, []).append(key)
    changed: dict[str, list[str]] = {}
    for recorded, keys in readers.items():
        if (present := _present_hash(recorded)) is not None and present != recorded.sha256:
            changed.setdefault(recorded.location, []).extend(keys)
    return changed


def _present_hash(recorded: Recorded) -> str | None:
    """The hash of what lies there now; None where nothing does, or nothing that can be read."""
    path = Path(recorded.location)
    try:
        if recorded.kind:
            return contents_hash(path, recorded.kind)
        return hash_once(path) if path.is_file() else None
    except OSError:
        return None
