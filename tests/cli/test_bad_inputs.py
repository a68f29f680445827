"""Whatever is wrong with what a user wrote ends in one sentence that names it, exit status 2, and
nothing written."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from crosswind.cli.main import _status

GOOD: dict[str, Any] = {
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink", "background", "size"],
            "roles": {"test": 2},
        }
    },
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2},
    },
    "sizes": {"equal": {"total": 100}},
    "models": ["mlp"],
    "methods": {"erm": {}, "groupdro": {}},
    "training": {"steps": 2, "validate_every": 1},
    "seeds": 1,
}


def edited(*path: str, to: Any) -> str:
    """The good study with one place changed, as YAML."""
    study = yaml.safe_load(yaml.safe_dump(GOOD))
    mapping = study
    for word in path[:-1]:
        mapping = mapping.setdefault(word, {})
    if to is None:
        mapping.pop(path[-1])
    else:
        mapping[path[-1]] = to
    return yaml.safe_dump(study, sort_keys=False)


def of_model(name: str, methods: Any = None, **knobs: Any) -> str:
    """The good study on one model, labelled `it` where it has settings, and with other methods."""
    study = yaml.safe_load(
        edited("models", to={"it": {"model": name, **knobs}} if knobs else [name])
    )
    return yaml.safe_dump({**study, "methods": methods or study["methods"]}, sort_keys=False)


@dataclass(frozen=True)
class Case:
    name: str
    text: str | bytes | None = None  # the study file; None: the case makes its own arguments
    says: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ("run", "{study}", "--out", "{out}")
    prepare: Callable[[Path], None] | None = field(default=None)


def table(folder: Path, rows: str, name: str = "t.csv") -> None:
    from PIL import Image

    (folder / "images").mkdir(exist_ok=True)
    for letter in "abcdefgh":
        Image.new("RGB", (8, 8), (10 * ord(letter) % 255, 0, 90)).save(
            folder / "images" / f"{letter}.png"
        )
    (folder / name).write_text(rows)


ROWS = "path,y,colour\n" + "".join(
    f"{letter}.png,{i % 2},{'red' if i < 4 else 'blue'}\n" for i, letter in enumerate("abcdefgh")
)


def of_table(**options: Any) -> str:
    entry = {
        "source": "table",
        "options": {"path": "t.csv", "images": "images", **options},
        "label": "y",
        "attributes": ["colour"],
    }
    return yaml.safe_dump(
        {
            "data": {"own": entry},
            "shifts": {"none": []},
            "models": ["mlp"],
            "training": {"steps": 2, "validate_every": 1},
            "seeds": 1,
        }
    )


def truncated(folder: Path) -> None:
    table(folder, ROWS)
    from PIL import Image

    Image.effect_noise((64, 64), 80).convert("RGB").save(folder / "images" / "c.png")
    png_bytes = (folder / "images" / "c.png").read_bytes()
    (folder / "images" / "c.png").write_bytes(png_bytes[: len(png_bytes) // 2])


def not_image(folder: Path) -> None:
    table(folder, ROWS)
    (folder / "images" / "c.png").write_text("not an image")


def missing_image(folder: Path) -> None:
    table(folder, ROWS)
    (folder / "images" / "c.png").unlink()


def broken_store(folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "store.sqlite").write_bytes(
        b"this is not a database, and it is long enough to have a header" * 40
    )


def newer_store(folder: Path) -> None:
    (folder / "out").mkdir()
    with sqlite3.connect(folder / "out" / "store.sqlite") as connection:
        connection.execute("CREATE TABLE anything (x INTEGER)")


def misspelt_store(folder: Path) -> None:
    """A store in whose schema one byte is not text: SQLite's module raises a UnicodeDecodeError for
    it."""
    from crosswind.storage.store import Store

    Store.open(folder / "out", create=True).close()
    store_file = folder / "out" / "store.sqlite"
    store_bytes = store_file.read_bytes()
    offset = store_bytes.index(b"CREATE TABLE runs")
    store_file.write_bytes(store_bytes[: offset + 7] + b"\xf6(((" + store_bytes[offset + 11 :])


def given(*extra: str) -> tuple[str, ...]:
    return ("run", "{study}", "--out", "{out}", *extra)


EDITS: list[tuple[Any, ...]] = [
    ("data", None, "data", "missing"),
    ("shifts", None, "shifts", "missing"),
    ("data", {}, "data", "empty"),
    ("metods", ["erm"], "'metods'", "'methods'"),
    ("data.digits.lable", "digit", "data.digits", "'lable'", "'label'"),
    ("seeds", "many", "seeds", "whole number", "'many'"),
    ("training.lr", "fast", "training.lr", "number", "'fast'"),
    ("seeds", 0, "seeds"),
    ("seeds", [1, 1], "seeds", "once"),
    ("data.digits.roles", {"test": -0.5}, "data.digits.roles.test"),
    ("selection", ["best"], "selection", "'best-id'"),
    ("methods", {"erm": 3}, "methods.erm", "3"),
    ("methods", {"gruopdro": {}, "erm": {}}, "methods", "'gruopdro'", "'groupdro'"),
    ("models", ["resnet19"], "models", "'resnet19'", "resnet18"),
    ("data.digits.source", "digit", "data.digits.source", "'digits'"),
    ("data.digits.options", {"sise": 32}, "data.digits.options", "'sise'", "'size'"),
    ("data.digits.label", "diget", "data.digits.label", "'digit'"),
    ("data.digits.attributes", ["inc"], "data.digits.attributes", "'ink'"),
    ("data.digits.attributes", ["digit"], "data.digits.attributes", "label"),
    ("data.digits.attributes", ["ink", "ink"], "data.digits.attributes", "twice"),
    ("shifts.SC", {"type": "spurious"}, "shifts.SC", "'spurious", "spurious-correlation"),
    ("shifts.SC", {"attribute": "ink"}, "shifts.SC", "type", "spurious-correlation"),
    ("shifts.SC.attribute", "inkk", "shifts.SC", "'inkk'", "'ink'"),
    (
        "shifts.U",
        {"type": "unseen-data", "attribute": "ink", "unseen": ["rde"]},
        "shifts.U",
        "'rde'",
        "red",
    ),
    ("shifts.SC.counterexample", 0.1, "shifts.SC", "'counterexamples'"),
    ("shifts.X", ["SC", "LDD"], "shifts.X", "'LDD'", "SC"),
    ("shifts.X", ["SC", "X"], "shifts", "itself"),
    ("shifts.X", 3, "shifts.X", "3"),
    ("sizes", {"a": {"digit": {"SC": 4}}}, "sizes.a", "'digits'"),
    ("sizes", {"a": {"digits": {"CS": 4}}}, "sizes.a.digits", "'CS'", "SC"),
    ("sampler", "balance", "sampler", "'balanced'"),
    ("reference", "irm", "reference", "erm"),
    ("training.step", 3, "training", "'step'", "'steps'"),
    ("methods.groupdro", {"etta": 0.1}, "methods.groupdro", "'etta'", "'eta'"),
    ("sets", {"test": {"role": "test", "law": "unform"}}, "sets.test.law", "'uniform'"),
    ("sets", {"v": {"role": "validation"}}, "sets", "'test'"),
    ("data.digits.keep", {"ink": ["rdd"]}, "keep.ink", "'rdd'", "red"),
    ("training.precision", "bf15", "training.precision", "'bf16'"),
    (
        "methods",
        {"erm": {}, "bn-adapt": {"attribute": "inks"}},
        "methods.bn-adapt.attribute",
        "'inks'",
        "'ink'",
    ),
    ("seds", 3, "study.yaml: seds: unknown field 'seds', did you mean 'seeds'?"),
    ("stepss", 3, "study.yaml: stepss: unknown field 'stepss', did you mean 'training.steps'?"),
    ("training.device", "gpu", "training.device: 'gpu' is no kind of device", "cuda"),
    (
        "shifts.SC",
        "spurious-correlation",
        (
            "shifts.SC: 'spurious-correlation' is a kind of shift, written as a mapping: {type:"
            " spurious-correlation, ...}"
        ),
        "none",
    ),
    (
        "methods",
        {"erm": {}, "bn-adapt": {}},
        "methods.bn-adapt (",
        "batch norm, and 'mlp' has none",
        "in its 'models'",
        "valid: resnet-w16, resnet101",
    ),
    (
        "methods",
        {"erm": {}, "groupdro": {"models": ["mpl"]}},
        "methods.groupdro.models:",
        "'mpl'",
        "'mlp'",
    ),
    (
        "methods",
        {"erm": {}, "jtt": {"shifts": [["SC"]]}},
        "methods.jtt.shifts:",
        "list of shifts of this study",
        "[['SC']]",
        "valid: SC, none",
    ),
    (
        "methods",
        {"erm": {}, "jtt": {"data": [{"a": 1}]}},
        "methods.jtt.data:",
        "list of data sets of this study",
        "{'a': 1}",
        "valid: digits",
    ),
    ("methods", {"erm": {}, "jtt": {"models": []}}, "methods.jtt.models:", "valid: mlp"),
    (
        "methods",
        {"erm": {}, "dann": {"environments": ["ink", "size"], "training": {"batch": [16, 8]}}},
        "methods.dann (digits, ",
        "each of the 9 environments",
        "training.batch is 8",
    ),
    ("methods.groupdro", {"eta": -1}, "methods.groupdro.eta", "[0, inf)"),
    ("training.lr", 0, "training.lr", "(0, inf)"),
    ("shifts.SC.counterexamples", -0.1, "shifts.SC", "counterexamples"),
    ("shifts.SC.strength", 1.5, "shifts.SC", "strength", "[0, 1]"),
    ("label_noise", 1.5, "label_noise"),
    (
        "methods",
        {"erm": {}, "noisy": {"method": "erm", "label_noise": 1.5}},
        "methods.noisy.label_noise:",
        "a number in [0, 1]",
        "1.5",
    ),
    ("sizes", {"a": {"total": 100000}}, "100000", "rows"),
    (
        "shifts.U",
        {"type": "unseen-data", "attribute": "ink", "unseen": ["red", "green", "blue"]},
        "unseen",
    ),
    ("sizes", {"a": {"total": 0}}, "sizes.a"),
    ("sizes", {"a": -4}, "sizes.a"),
    ("sizes", {"a": "everything"}, "sizes.a", "all"),
    ("methods.groupdro", {"eta": []}, "methods.groupdro.eta", "empty"),
    (
        "shifts.X",
        ["none", {"type": "unseen-data", "attribute": "ink", "unseen": ["rde"]}],
        "shifts.X.1.unseen",
        "'rde'",
        "red",
    ),
    (
        "shifts",
        {"U": {"type": "unseen-data", "attribute": "ink", "unseen": ["rde"]}, "X": ["U"]},
        "shifts.U.unseen:",
        "'rde'",
    ),
    ("sizes", {"a": {"digits": {"SC": {"total": "x"}}}}, "sizes.a.digits.SC.total:", "'x'"),
    ("sizes", {"a": "eqal"}, "sizes.a:", "'equal'"),
    ("dataset_size", [50, 10**6], "dataset_size.1:", "1000000", "rows"),
    (
        "sets",
        {
            "v": {"role": "validation"},
            "t": {"role": "test", "law": {"type": "only", "attribute": "ink", "values": ["rde"]}},
        },
        "sets.t.law.values:",
        "'rde'",
    ),
    (
        "sets",
        {"validation": {"role": "validation"}, "test": {"role": "test", "source": "digit"}},
        "sets.test.source:",
        "'digits'",
    ),
    (
        "data.digits.roles",
        {"official": {"column": "ink", "train": ["rde"], "test": ["red"]}},
        "data.digits.roles.official.train:",
        "'rde'",
    ),
    ("data.digits.roles", {"test": 0}, "data.digits.roles.test:", "'test'"),
    (
        "data.digits.derive",
        {"name": "n", "transform": "gaussian-noise", "values": {"a": None, "b": {"severity": 9}}},
        "data.digits.derive.values.b.severity:",
        "[1, 5]",
    ),
    (
        "data.digits.derive",
        {"name": "ink", "transform": "gaussian-noise", "values": {"a": None}},
        "data.digits.derive.name:",
    ),
    (
        "data.digits.derive",
        {"name": "n", "transform": "gaussian-noise", "values": {"a": None}},
        "data.digits.attributes:",
        "'n'",
    ),
    ("methods.x", {"method": ["erm"]}, "methods.x.method:", "name of a method"),
    ("models", {"x": {"model": {}}}, "models.x.model:", "name of a model"),
    ("scales", {"tiny": {"stepz": 3}}, "scales.tiny.stepz:"),
    ("name", "a" * 101, "name:", "100 characters"),
    (
        "data",
        {
            "f": {
                "source": "factors",
                "options": {"grid": {"y": 2}, "split": {"train": 2**61}},
                "label": "y",
                "attributes": [],
            }
        },
        "data.f.options.split.train:",
        "rows",
    ),
    ("groups", ["inkk"], "groups:", "'inkk'", "'ink'"),
    ("methods.groupdro", {"groups": ["inkk"]}, "methods.groupdro.groups:", "'ink'"),
    ("environments", ["ink", "ink"], "environments:", "twice"),
    ("sampler", {"mixture": 0.5}, "sampler", "supplement", "none"),
    ("methods.groupdro", {"sampler": {"mixture": 0.5}}, "methods.groupdro.sampler", "supplement"),
    ("label_noise", {"matrix": [[1, 0], [0, 1]]}, "label_noise.matrix:", "10 rows"),
    ("label_noise", {"matrix": [[1, 0.5], [0, 1]]}, "label_noise.matrix:", "row 0", "1.5"),
    ("label_noise", [0.1, {"rate": 0.1, "kind": "flop"}], "label_noise.1.kind:", "'flip'"),
    ("label_noise", [0.1, 0.1], "label_noise:", "once"),
    ("selection", ["best-ood"], "selection:", "'ood-validation'", "last"),
    ("data.digits.roles", {"test": 2, "validation": 0}, "selection:", "'validation'", "no rows"),
    ("training.momentum", 0.9, "training.momentum:", "sgd"),
    ("training.device", "cuda:77", "training.device:", "'cuda:77'"),
    (
        "data.digits",
        {
            "source": "factors",
            "options": {"grid": {"digit": 2, "ink": 2}, "copies": 200},
            "label": "digit",
            "attributes": ["ink"],
        },
        "no inputs",
    ),
]
"""A field of the good study, what it is set to, and what the sentence says."""


CASES = [
    Case("empty", "", ("study.yaml", "empty")),
    Case("comment only", "# nothing\n", ("study.yaml", "empty")),
    Case("list", "- a\n- b\n", ("study.yaml", "list", "mapping")),
    Case("text", "hello", ("study.yaml", "text", "mapping")),
    Case("tab", "data:\n\tdigits: {}\n", ("line 2", "tab")),
    Case("binary", b"\x89PNG\r\n\x1a\n\x00\xff\xfe", ("UTF-8",)),
    Case("nul bytes", b"data: \x00\x00", ("NUL",)),
    Case("duplicate key", "seeds: 1\nseeds: 2\n", ("line 2", "'seeds'", "twice")),
    Case("alias bomb", "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", ("line 1", "aliases")),
    Case(
        "python tag",
        "data: !!python/object/apply:os.system ['true']\n",
        ("line 1", "tag", "not allowed"),
    ),
    Case("two documents", edited("seeds", to=1) + "---\nseeds: 2\n", ("second document",)),
    Case("not yaml", "data: [1, 2\n", ("not valid YAML", "line")),
    Case("deep", "data: " + "[" * 200 + "]" * 200, ("nested",)),
    Case(
        "infinite number", edited("training", "lr", to=1).replace("lr: 1", "lr: .inf"), ("finite",)
    ),
    Case(
        "huge number",
        edited("seeds", to=1).replace("seeds: 1", "seeds: 99999999999999999999999"),
        ("64 bits",),
    ),
    Case("missing file", None, ("nothing.yaml", "demo"), ("run", "nothing.yaml", "--out", "{out}")),
    Case("folder", None, ("folder", "study file"), ("run", "{tmp}", "--out", "{out}")),
    Case("unknown study", None, ("'dmo'", "'demo'"), ("run", "dmo", "--out", "{out}")),
    Case(
        "a file of nearly this name",
        edited("seeds", to=1),
        ("there is no study file", "/Study.yaml, did you mean 'study.yaml'?", "demo"),
        ("plan", "{tmp}/Study.yaml"),
    ),
    Case(
        "a setting of a method that is not in the list",
        edited("methods", to=["erm", "groupdro"]),
        ("--set methods.irm.estimate: 'irm' is not a position in a list of 2",),
        given("--set", "methods.irm.estimate=halves"),
    ),
    Case(
        "a bad setting of a method in a list",
        edited("methods", to=["erm", "groupdro"]),
        ("methods.groupdro.eta: must be a number in [0, inf), not 'big'",),
        given("--set", "methods.groupdro.eta=big"),
    ),
    Case(
        "no folder",
        edited("seeds", to=1),
        ("--out", "must not be empty"),
        ("run", "{study}", "--out", ""),
    ),
    Case(
        "a folder for a database",
        edited("seeds", to=1),
        ("--store: 'elsewhere' is no URL", "--out"),
        ("run", "{study}", "--out", "{out}", "--store", "elsewhere"),
    ),
    Case(
        "a model with another norm",
        of_model("vit-tiny", methods={"erm": {}, "bn-adapt": {}}),
        ("methods.bn-adapt (", "'vit-tiny' has layer norm", "small-cnn"),
    ),
    Case(
        "unknown weights",
        of_model("resnet18", weights="IMAGENET1K"),
        ("models.it.weights:", "'IMAGENET1K'", "'IMAGENET1K_V1'"),
    ),
    Case(
        "weights that the model does not have",
        of_model("resnet18", weights="IMAGENET1K_V2"),
        ("models.it.weights:", "valid: IMAGENET1K_V1, FILE.safetensors"),
    ),
    Case(
        "weights of another stem",
        of_model("resnet50", weights="IMAGENET1K_V2", stem="small"),
        ("models.it.stem:", "'imagenet', not 'small'"),
    ),
    Case(
        "a file that holds no weights",
        of_model("resnet18", weights="w.safetensors"),
        ("models.it.weights:", "'w.safetensors' cannot be read as safetensors"),
        prepare=lambda folder: (folder / "w.safetensors").write_text("nothing") and None,
    ),
    Case(
        "patches that do not divide the images",
        of_model("vit-tiny", patch=5),
        ("models.it.patch:", "a multiple of 5 pixels a side, these have 32 x 32", "data.digits"),
    ),
    Case("missing table", of_table(), ("t.csv",)),
    Case(
        "missing column",
        of_table(path_column="file"),
        ("'file'", "path"),
        prepare=lambda folder: table(folder, ROWS),
    ),
    Case("missing image", of_table(), ("c.png",), prepare=missing_image),
    Case("truncated image", of_table(), ("c.png",), prepare=truncated),
    Case("not an image", of_table(), ("c.png",), prepare=not_image),
    Case(
        "null label",
        of_table(),
        ("y", "row"),
        prepare=lambda folder: table(folder, ROWS.replace("b.png,1", "b.png,")),
    ),
    Case(
        "nan label",
        of_table(),
        ("y",),
        prepare=lambda folder: table(
            folder, ROWS.replace("b.png,1", "b.png,nan").replace(",0,", ",0.5,")
        ),
    ),
    Case(
        "ragged csv",
        of_table(),
        ("t.csv",),
        prepare=lambda folder: table(folder, ROWS + "a.png,1,red,extra,more\n"),
    ),
    Case(
        "outside the folder",
        of_table(),
        ("../",),
        prepare=lambda folder: table(folder, ROWS.replace("b.png", "../t.csv")),
    ),
    Case(
        "one class",
        of_table(),
        ("y", "one value"),
        prepare=lambda folder: table(folder, ROWS.replace(",1,", ",0,")),
    ),
    Case(
        "table of no rows",
        of_table(),
        ("t.csv", "no rows"),
        prepare=lambda folder: table(folder, "path,y,colour\n"),
    ),
    Case(
        "set of nothing",
        edited("seeds", to=1),
        ("--set", "training.="),
        given("--set", "training.=1"),
    ),
    Case(
        "set inside text",
        edited("seeds", to=1),
        ("shifts.SC.attribute", "'ink'"),
        given("--set", "shifts.SC.attribute.x=1"),
    ),
    Case(
        "too many cells",
        of_table(columns=["y", "colour", "a", "b"]).replace(
            "- colour\n    label", "- colour\n    - a\n    - b\n    label"
        ),
        ("data.own.attributes:", "54,000,000 cells", "colour 300"),
        prepare=lambda folder: table(
            folder,
            "path,y,colour,a,b\n" + "".join(f"a.png,{i % 2},{i},{i},{i}\n" for i in range(300)),
        ),
    ),
    Case(
        "sets of other sizes",
        edited(
            "data",
            "big",
            to={
                "source": "digits",
                "options": {"size": 64},
                "label": "digit",
                "attributes": ["ink"],
            },
        )
        + "sets: {validation: {role: validation, law: train}, test: {role: test, source: big}}",
        ("data.big.options.size:", "64 x 64", "32 x 32"),
    ),
    Case(
        "line break in a value",
        of_table(),
        ("colour", "row 1", "line break"),
        prepare=lambda folder: table(folder, ROWS.replace("red", '"r\ned"')),
    ),
    Case(
        "UTF-16",
        of_table(),
        ("data.own", "UTF-16", "UTF-8"),
        prepare=lambda folder: (
            table(folder, ""),
            (folder / "t.csv").write_bytes(ROWS.encode("utf-16-le")),
        )[0],
    ),
    Case(
        "column twice",
        of_table(),
        ("'y'", "twice"),
        prepare=lambda folder: table(folder, ROWS.replace("colour", "y")),
    ),
    Case(
        "70,000 values",
        of_table(),
        ("colour", "70,000"),
        prepare=lambda folder: table(
            folder, "path,y,colour\n" + "".join(f"a.png,{i % 2},v{i}\n" for i in range(70_000))
        ),
    ),
    Case(
        "truncated parquet",
        of_table(path="t.parquet"),
        ("t.parquet",),
        prepare=lambda folder: table(folder, "PAR1 and no more", "t.parquet"),
    ),
    Case(
        "link to itself",
        of_table(),
        ("data.own.options.path:", "t.csv"),
        prepare=lambda folder: os.symlink("t.csv", folder / "t.csv"),
    ),
    Case(
        "store with broken text",
        None,
        ("store.sqlite", "damaged"),
        ("status", "{out}/store.sqlite"),
        lambda folder: misspelt_store(folder),
    ),
    Case("unknown verb", None, ("'rum'",), ("rum",)),
    Case(
        "unknown option", edited("seeds", to=1), ("--worker",), ("run", "{study}", "--worker", "2")
    ),
    Case(
        "zero workers",
        edited("seeds", to=1),
        ("workers",),
        ("run", "{study}", "--workers", "0", "--out", "{out}"),
    ),
    Case(
        "words for memory",
        edited("seeds", to=1),
        ("--memory: 'lots' is no amount",),
        ("run", "{study}", "--memory", "lots"),
    ),
    Case(
        "words for workers",
        edited("seeds", to=1),
        ("workers",),
        ("run", "{study}", "--workers", "two", "--out", "{out}"),
    ),
    Case(
        "set without a value",
        edited("seeds", to=1),
        ("--set", "key=value"),
        given("--set", "training.steps"),
    ),
    Case(
        "set of an unknown key",
        edited("seeds", to=1),
        ("training", "'stepz'", "'steps'"),
        given("--set", "training.stepz=3"),
    ),
    Case(
        "set of a wrong value",
        edited("seeds", to=1),
        ("training.steps", "whole number"),
        given("--set", "training.steps=few"),
    ),
    Case("unknown scale", edited("seeds", to=1), ("--scale", "'huge'"), given("--scale", "huge")),
    Case(
        "scale that is not there",
        edited("seeds", to=1),
        ("--scale", "'tiny'"),
        given("--scale", "tiny"),
    ),
    Case("unknown kind", None, ("'methodz'", "'methods'"), ("list", "methodz")),
    Case("unknown name", None, ("'emr'", "'erm'"), ("show", "method", "emr")),
    Case("status without a store", None, ("out",), ("status", "{out}")),
    Case("report without a store", None, ("out",), ("report", "{out}")),
    Case(
        "store that is no database", edited("seeds", to=1), ("store.sqlite",), prepare=broken_store
    ),
    Case("store of another program", edited("seeds", to=1), ("store.sqlite",), prepare=newer_store),
    Case(
        "report of an unreadable store", None, ("store.sqlite",), ("report", "{out}"), broken_store
    ),
    Case(
        "store of an unknown database",
        edited("seeds", to=1),
        ("store",),
        ("run", "{study}", "--out", "{out}", "--store", "oracel://x"),
    ),
    Case(
        "out is a file",
        edited("seeds", to=1),
        ("taken",),
        ("run", "{study}", "--out", "{tmp}/taken"),
        lambda folder: (folder / "taken").write_text("x"),
    ),
    *(
        Case(f"{field} {number}", edited(*field.split("."), to=value), tuple(says))
        for number, (field, value, *says) in enumerate(EDITS)
    ),
]


def test_enough_cases() -> None:
    assert len(CASES) >= 130
    assert len({case.name for case in CASES}) == len(CASES)


def _tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_one_sentence_status_two_nothing_written(
    case: Case, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    if case.text is not None:
        raw = case.text if isinstance(case.text, bytes) else case.text.encode()
        (tmp_path / "study.yaml").write_bytes(raw)
    if case.prepare is not None:
        case.prepare(tmp_path)
    before = _tree(tmp_path)
    words = {
        "study": str(tmp_path / "study.yaml"),
        "out": str(tmp_path / "out"),
        "tmp": str(tmp_path),
    }
    arguments = [argument.format(**words) for argument in case.arguments]

    status = _status(arguments)

    printed = capsys.readouterr()
    assert status == 2, printed
    lines = [line for line in printed.err.splitlines() if not line.startswith("warning: ")]
    assert len(lines) == 1 and lines[0].startswith("error: "), printed.err
    assert "Traceback" not in printed.err
    for word in case.says:
        assert word in lines[0], f"{word!r} is not in {lines[0]!r}"
    assert _tree(tmp_path) == before, "something was written"


def test_the_bare_command_prints_its_help(capsys: Any) -> None:
    assert _status([]) == 0
    printed = capsys.readouterr()
    assert (
        printed.err == ""
        and printed.out.startswith("Usage: crosswind")
        and len(printed.out.splitlines()) > 10
    )


def test_a_bad_plan_never_opens_the_network_or_leaves_a_folder(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _status(["run", "dmo"]) == 2
    assert os.listdir(tmp_path) == []
