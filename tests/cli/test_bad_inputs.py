"""Whatever is wrong with what a user wrote ends in one sentence that names it, exit status 2, and nothing written."""

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
    "data": {"digits": {"source": "digits", "label": "digit", "attributes": ["ink", "background", "size"], "roles": {"test": 2}}},
    "shifts": {"none": [], "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2}},
    "sizes": {"equal": {"total": 100}},
    "models": ["mlp"],
    "methods": {"erm": {}, "groupdro": {}},
    "training": {"steps": 2, "validate_every": 1},
    "seeds": 1,
}


def edited(*path: str, to: Any) -> str:
    """The good study with one place changed, as YAML."""
    study = yaml.safe_load(yaml.safe_dump(GOOD))
    place = study
    for word in path[:-1]:
        place = place.setdefault(word, {})
    if to is None:
        place.pop(path[-1])
    else:
        place[path[-1]] = to
    return yaml.safe_dump(study, sort_keys=False)


def of_model(name: str, methods: Any = None, **knobs: Any) -> str:
    """The good study on one model, labelled `it` where it has settings, and with other methods."""
    study = yaml.safe_load(edited("models", to={"it": {"model": name, **knobs}} if knobs else [name]))
    return yaml.safe_dump({**study, "methods": methods or study["methods"]}, sort_keys=False)


@dataclass(frozen=True)
class Case:
    name: str
    text: str | bytes | None = None  # the study file; None: the case makes its own arguments
    says: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ("run", "{study}", "--out", "{out}")
    prepare: Callable[[Path], None] | None = field(default=None)


def table(tmp: Path, rows: str, name: str = "t.csv") -> None:
    from PIL import Image

    (tmp / "images").mkdir(exist_ok=True)
    for letter in "abcdefgh":
        Image.new("RGB", (8, 8), (10 * ord(letter) % 255, 0, 90)).save(tmp / "images" / f"{letter}.png")
    (tmp / name).write_text(rows)


ROWS = "path,y,colour\n" + "".join(f"{letter}.png,{i % 2},{'red' if i < 4 else 'blue'}\n" for i, letter in enumerate("abcdefgh"))


def of_table(**options: Any) -> str:
    entry = {"source": "table", "options": {"path": "t.csv", "images": "images", **options}, "label": "y", "attributes": ["colour"]}
    return yaml.safe_dump(
        {
            "data": {"own": entry},
            "shifts": {"none": []},
            "models": ["mlp"],
            "training": {"steps": 2, "validate_every": 1},
            "seeds": 1,
        }
    )


def truncated(tmp: Path) -> None:
    table(tmp, ROWS)
    from PIL import Image

    Image.effect_noise((64, 64), 80).convert("RGB").save(tmp / "images" / "c.png")
    whole = (tmp / "images" / "c.png").read_bytes()
    (tmp / "images" / "c.png").write_bytes(whole[: len(whole) // 2])


def not_image(tmp: Path) -> None:
    table(tmp, ROWS)
    (tmp / "images" / "c.png").write_text("not an image")


def missing_image(tmp: Path) -> None:
    table(tmp, ROWS)
    (tmp / "images" / "c.png").unlink()


def broken_store(tmp: Path) -> None:
    (tmp / "out").mkdir()
    (tmp / "out" / "store.sqlite").write_bytes(b"this is not a database, and it is long enough to have a header" * 40)


def newer_store(tmp: Path) -> None:
    (tmp / "out").mkdir()
    with sqlite3.connect(tmp / "out" / "store.sqlite") as connection:
        connection.execute("CREATE TABLE anything (x INTEGER)")


def misspelt_store(tmp: Path) -> None:
    """A store in whose schema one byte is not text: SQLite's module raises a UnicodeDecodeError for it."""
    from crosswind.studies.store import Store

    Store.open(tmp / "out", create=True).close()
    place = tmp / "out" / "store.sqlite"
    whole = place.read_bytes()
    at = whole.index(b"CREATE TABLE runs")
    place.write_bytes(whole[: at + 7] + b"\xf6(((" + whole[at + 11 :])


def plan(*extra: str) -> tuple[str, ...]:
    return ("plan", "{study}", *extra)


CASES = [
    # the file itself
    Case("empty", "", ("study.yaml", "empty")),
    Case("comment only", "# nothing\n", ("study.yaml", "empty")),
    Case("list", "- a\n- b\n", ("study.yaml", "list", "mapping")),
    Case("text", "hello", ("study.yaml", "text", "mapping")),
    Case("tab", "data:\n\tdigits: {}\n", ("line 2", "tab")),
    Case("binary", b"\x89PNG\r\n\x1a\n\x00\xff\xfe", ("UTF-8",)),
    Case("nul bytes", b"data: \x00\x00", ("NUL",)),
    Case("duplicate key", "seeds: 1\nseeds: 2\n", ("line 2", "'seeds'", "twice")),
    Case("alias bomb", "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", ("line 1", "aliases")),
    Case("python tag", "data: !!python/object/apply:os.system ['true']\n", ("line 1", "tag", "not allowed")),
    Case("two documents", edited("seeds", to=1) + "---\nseeds: 2\n", ("second document",)),
    Case("not yaml", "data: [1, 2\n", ("not valid YAML", "line")),
    Case("deep", "data: " + "[" * 200 + "]" * 200, ("nested",)),
    Case("infinite number", edited("training", "lr", to=1).replace("lr: 1", "lr: .inf"), ("finite",)),
    Case("huge number", edited("seeds", to=1).replace("seeds: 1", "seeds: 99999999999999999999999"), ("64 bits",)),
    Case("missing file", None, ("nothing.yaml", "demo"), ("run", "nothing.yaml", "--out", "{out}")),
    Case("folder", None, ("folder", "study file"), ("run", "{tmp}", "--out", "{out}")),
    Case("unknown study", None, ("'dmo'", "'demo'"), ("run", "dmo", "--out", "{out}")),
    # fields
    Case("no data", edited("data", to=None), ("data", "missing")),
    Case("no shifts", edited("shifts", to=None), ("shifts", "missing")),
    Case("empty data", edited("data", to={}), ("data", "empty")),
    Case("unknown field", edited("metods", to=["erm"]), ("'metods'", "'methods'")),
    Case("unknown data field", edited("data", "digits", "lable", to="digit"), ("data.digits", "'lable'", "'label'")),
    Case("text for number", edited("seeds", to="many"), ("seeds", "whole number", "'many'")),
    Case("text for a knob", edited("training", "lr", to="fast"), ("training.lr", "number", "'fast'")),
    Case("zero seeds", edited("seeds", to=0), ("seeds",)),
    Case("seed twice", edited("seeds", to=[1, 1]), ("seeds", "once")),
    Case("negative test share", edited("data", "digits", "roles", to={"test": -0.5}), ("data.digits.roles.test",)),
    Case("unknown selection", edited("selection", to=["best"]), ("selection", "'best-id'")),
    Case("number as a method's settings", edited("methods", to={"erm": 3}), ("methods.erm", "3")),
    # names
    Case("unknown method", edited("methods", to={"gruopdro": {}, "erm": {}}), ("methods", "'gruopdro'", "'groupdro'")),
    Case("unknown model", edited("models", to=["resnet19"]), ("models", "'resnet19'", "resnet18")),
    Case("unknown source", edited("data", "digits", "source", to="digit"), ("data.digits.source", "'digits'")),
    Case(
        "unknown source option", edited("data", "digits", "options", to={"sise": 32}), ("data.digits.options", "'sise'", "'size'")
    ),
    Case("unknown label", edited("data", "digits", "label", to="diget"), ("data.digits.label", "'digit'")),
    Case("unknown attribute", edited("data", "digits", "attributes", to=["inc"]), ("data.digits.attributes", "'ink'")),
    Case("label as attribute", edited("data", "digits", "attributes", to=["digit"]), ("data.digits.attributes", "label")),
    Case("attribute twice", edited("data", "digits", "attributes", to=["ink", "ink"]), ("data.digits.attributes", "twice")),
    Case("unknown shift type", edited("shifts", "SC", to={"type": "spurious"}), ("shifts.SC", "'spurious", "spurious-correlation")),
    Case("shift without type", edited("shifts", "SC", to={"attribute": "ink"}), ("shifts.SC", "type", "spurious-correlation")),
    Case("attribute of shift", edited("shifts", "SC", "attribute", to="inkk"), ("shifts.SC", "'inkk'", "'ink'")),
    Case(
        "value of shift",
        edited("shifts", "U", to={"type": "unseen-data", "attribute": "ink", "unseen": ["rde"]}),
        ("shifts.U", "'rde'", "red"),
    ),
    Case("unknown shift field", edited("shifts", "SC", "counterexample", to=0.1), ("shifts.SC", "'counterexamples'")),
    Case("composition of nothing", edited("shifts", "X", to=["SC", "LDD"]), ("shifts.X", "'LDD'", "SC")),
    Case("composition of itself", edited("shifts", "X", to=["SC", "X"]), ("shifts", "itself")),
    Case("number as a shift", edited("shifts", "X", to=3), ("shifts.X", "3")),
    Case("unknown data in sizes", edited("sizes", to={"a": {"digit": {"SC": 4}}}), ("sizes.a", "'digits'")),
    Case("unknown shift in sizes", edited("sizes", to={"a": {"digits": {"CS": 4}}}), ("sizes.a.digits", "'CS'", "SC")),
    Case("unknown sampler", edited("sampler", to="balance"), ("sampler", "'balanced'")),
    Case("unknown reference", edited("reference", to="irm"), ("reference", "erm")),
    Case("unknown setting of training", edited("training", "step", to=3), ("training", "'step'", "'steps'")),
    Case("unknown knob", edited("methods", "groupdro", to={"etta": 0.1}), ("methods.groupdro", "'etta'", "'eta'")),
    Case("unknown law", edited("sets", to={"test": {"role": "test", "law": "unform"}}), ("sets.test.law", "'uniform'")),
    Case("no test set", edited("sets", to={"v": {"role": "validation"}}), ("sets", "'test'")),
    Case("keep of an unknown value", edited("data", "digits", "keep", to={"ink": ["rdd"]}), ("keep.ink", "'rdd'", "red")),
    Case("unknown precision", edited("training", "precision", to="bf15"), ("training.precision", "'bf16'")),
    Case(
        "unknown attribute to adapt by",
        edited("methods", to={"erm": {}, "bn-adapt": {"attribute": "inks"}}),
        ("methods.bn-adapt.attribute", "'inks'", "'ink'"),
    ),
    Case(
        "a setting of training at the top",
        edited("stepss", to=3),
        ("study.yaml: stepss: unknown field 'stepss', did you mean 'training.steps'?",),
    ),
    Case("a device that is none", edited("training", "device", to="gpu"), ("training.device: 'gpu' is no kind of device", "cuda")),
    Case(
        "a kind of shift for a shift",
        edited("shifts", "SC", to="spurious-correlation"),
        ("shifts.SC: 'spurious-correlation' is a kind of shift, written as a mapping: {type: spurious-correlation, ...}", "none"),
    ),
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
        plan("--set", "methods.irm.estimate=halves"),
    ),
    Case(
        "a bad setting of a method in a list",
        edited("methods", to=["erm", "groupdro"]),
        ("methods.groupdro.eta: must be a number in [0, inf), not 'big'",),
        plan("--set", "methods.groupdro.eta=big"),
    ),
    Case("no folder", edited("seeds", to=1), ("--out", "must not be empty"), ("run", "{study}", "--out", "")),
    Case(
        "a folder for a database",
        edited("seeds", to=1),
        ("--store: 'elsewhere' is no URL", "--out"),
        ("run", "{study}", "--out", "{out}", "--store", "elsewhere"),
    ),
    # what a method or a model cannot work with
    Case(
        "a model without batch norm",
        edited("methods", to={"erm": {}, "bn-adapt": {}}),
        ("methods.bn-adapt:", "batch norm, and 'mlp' has none", "methods.bn-adapt.models", "valid: resnet-w16, resnet101"),
    ),
    Case(
        "a model with another norm",
        of_model("vit-tiny", methods={"erm": {}, "bn-adapt": {}}),
        ("methods.bn-adapt:", "'vit-tiny' has layer norm", "small-cnn"),
    ),
    Case(
        "unknown model of a method",
        edited("methods", to={"erm": {}, "groupdro": {"models": ["mpl"]}}),
        ("methods.groupdro.models:", "'mpl'", "'mlp'"),
    ),
    Case(
        "shift of a method that is a list",
        edited("methods", to={"erm": {}, "jtt": {"shifts": [["SC"]]}}),
        ("methods.jtt.shifts:", "list of shifts of this study", "[['SC']]", "valid: SC, none"),
    ),
    Case(
        "data of a method that is a mapping",
        edited("methods", to={"erm": {}, "jtt": {"data": [{"a": 1}]}}),
        ("methods.jtt.data:", "list of data sets of this study", "{'a': 1}", "valid: digits"),
    ),
    Case("no models of a method", edited("methods", to={"erm": {}, "jtt": {"models": []}}), ("methods.jtt.models:", "valid: mlp")),
    Case(
        "more environments than rows of a batch",
        edited("methods", to={"erm": {}, "dann": {"environments": ["ink", "size"], "training": {"batch": [16, 8]}}}),
        ("methods.dann (digits, ", "each of the 9 environments", "training.batch is 8"),
    ),
    Case("unknown weights", of_model("resnet18", weights="IMAGENET1K"), ("models.it.weights:", "'IMAGENET1K'", "'IMAGENET1K_V1'")),
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
        prepare=lambda tmp: (tmp / "w.safetensors").write_text("nothing") and None,
    ),
    Case(
        "patches that do not divide the images",
        of_model("vit-tiny", patch=5),
        ("models.it.patch:", "a multiple of 5 pixels a side, these have 32 x 32", "data.digits"),
    ),
    # values out of domain, sets that cannot be
    Case("knob out of its domain", edited("methods", "groupdro", to={"eta": -1}), ("methods.groupdro.eta", "[0, inf)")),
    Case("learning rate zero", edited("training", "lr", to=0), ("training.lr", "(0, inf)")),
    Case("negative share", edited("shifts", "SC", "counterexamples", to=-0.1), ("shifts.SC", "counterexamples")),
    Case("strength above one", edited("shifts", "SC", "strength", to=1.5), ("shifts.SC", "strength", "[0, 1]")),
    Case("label noise above one", edited("label_noise", to=1.5), ("label_noise",)),
    Case("more rows than exist", edited("sizes", to={"a": {"total": 100_000}}), ("100000", "rows")),
    Case(
        "everything unseen",
        edited("shifts", "U", to={"type": "unseen-data", "attribute": "ink", "unseen": ["red", "green", "blue"]}),
        ("unseen",),
    ),
    Case("empty training", edited("sizes", to={"a": {"total": 0}}), ("sizes.a",)),
    Case("negative draw", edited("sizes", to={"a": -4}), ("sizes.a",)),
    Case("draw of a word", edited("sizes", to={"a": "everything"}), ("sizes.a", "all")),
    Case("empty grid", edited("methods", "groupdro", to={"eta": []}), ("methods.groupdro.eta", "empty")),
    # tables
    Case("missing table", of_table(), ("t.csv",), plan()),
    Case("missing column", of_table(path_column="file"), ("'file'", "path"), plan(), lambda tmp: table(tmp, ROWS)),
    Case("missing image", of_table(), ("c.png",), prepare=missing_image),
    Case("truncated image", of_table(), ("c.png",), prepare=truncated),
    Case("not an image", of_table(), ("c.png",), prepare=not_image),
    Case("null label", of_table(), ("y", "row"), plan(), lambda tmp: table(tmp, ROWS.replace("b.png,1", "b.png,"))),
    Case(
        "nan label",
        of_table(),
        ("y",),
        plan(),
        lambda tmp: table(tmp, ROWS.replace("b.png,1", "b.png,nan").replace(",0,", ",0.5,")),
    ),
    Case("ragged csv", of_table(), ("t.csv",), plan(), lambda tmp: table(tmp, ROWS + "a.png,1,red,extra,more\n")),
    Case("outside the folder", of_table(), ("../",), plan(), lambda tmp: table(tmp, ROWS.replace("b.png", "../t.csv"))),
    Case("one class", of_table(), ("y", "one value"), plan(), lambda tmp: table(tmp, ROWS.replace(",1,", ",0,"))),
    Case("table of no rows", of_table(), ("t.csv", "no rows"), plan(), lambda tmp: table(tmp, "path,y,colour\n")),
    # where a fault was written, not where it was found
    Case(
        "unseen value inside a composition",
        edited("shifts", "X", to=["none", {"type": "unseen-data", "attribute": "ink", "unseen": ["rde"]}]),
        ("shifts.X.1.unseen", "'rde'", "red"),
        plan(),
    ),
    Case(
        "value of a shift named by another",
        edited("shifts", to={"U": {"type": "unseen-data", "attribute": "ink", "unseen": ["rde"]}, "X": ["U"]}),
        ("shifts.U.unseen:", "'rde'"),
        plan(),
    ),
    Case(
        "draw of one shift",
        edited("sizes", to={"a": {"digits": {"SC": {"total": "x"}}}}),
        ("sizes.a.digits.SC.total:", "'x'"),
        plan(),
    ),
    Case("size with a slip", edited("sizes", to={"a": "eqal"}), ("sizes.a:", "'equal'"), plan()),
    Case("one of many sizes", edited("dataset_size", to=[50, 10**6]), ("dataset_size.1:", "1000000", "rows"), plan()),
    Case(
        "law of a set",
        edited(
            "sets",
            to={
                "validation": {"role": "validation"},
                "test": {"role": "test", "law": {"type": "only", "attribute": "ink", "values": ["rde"]}},
            },
        ),
        ("sets.test.law.values:", "'rde'"),
        plan(),
    ),
    Case(
        "source of a set",
        edited("sets", to={"validation": {"role": "validation"}, "test": {"role": "test", "source": "digit"}}),
        ("sets.test.source:", "'digits'"),
        plan(),
    ),
    Case(
        "official value",
        edited("data", "digits", "roles", to={"official": {"column": "ink", "train": ["rde"], "test": ["red"]}}),
        ("data.digits.roles.official.train:", "'rde'"),
        plan(),
    ),
    Case("no test rows", edited("data", "digits", "roles", to={"test": 0}), ("data.digits.roles.test:", "'test'"), plan()),
    Case(
        "derived setting",
        edited(
            "data", "digits", "derive", to={"name": "n", "transform": "gaussian-noise", "values": {"a": None, "b": {"severity": 9}}}
        ),
        ("data.digits.derive.values.b.severity:", "[1, 5]"),
        plan(),
    ),
    Case(
        "derived name taken",
        edited("data", "digits", "derive", to={"name": "ink", "transform": "gaussian-noise", "values": {"a": None}}),
        ("data.digits.derive.name:",),
        plan(),
    ),
    Case(
        "derived and not an attribute",
        edited("data", "digits", "derive", to={"name": "n", "transform": "gaussian-noise", "values": {"a": None}}),
        ("data.digits.attributes:", "'n'"),
        plan(),
    ),
    Case(
        "method that is a list", edited("methods", "x", to={"method": ["erm"]}), ("methods.x.method:", "name of a method"), plan()
    ),
    Case("model that is a mapping", edited("models", to={"x": {"model": {}}}), ("models.x.model:", "name of a model"), plan()),
    Case("overlay with a slip", edited("scales", to={"tiny": {"stepz": 3}}), ("scales.tiny.stepz:",), plan()),
    Case("set of nothing", edited("seeds", to=1), ("--set", "training.="), plan("--set", "training.=1")),
    Case("set inside text", edited("seeds", to=1), ("shifts.SC.attribute", "'ink'"), plan("--set", "shifts.SC.attribute.x=1")),
    Case("very long name", edited("name", to="a" * 101), ("name:", "100 characters"), plan()),
    Case(
        "too many cells",
        of_table(columns=["y", "colour", "a", "b"]).replace("- colour\n    label", "- colour\n    - a\n    - b\n    label"),
        ("data.own.attributes:", "54,000,000 cells", "colour 300"),
        plan(),
        lambda tmp: table(tmp, "path,y,colour,a,b\n" + "".join(f"a.png,{i % 2},{i},{i},{i}\n" for i in range(300))),
    ),
    Case(
        "too many copies",
        edited(
            "data",
            to={
                "f": {"source": "factors", "options": {"grid": {"y": 2}, "split": {"train": 2**61}}, "label": "y", "attributes": []}
            },
        ),
        ("data.f.options.split.train:", "rows"),
        plan(),
    ),
    # what only a run would have met
    Case("unknown group", edited("groups", to=["inkk"]), ("groups:", "'inkk'", "'ink'"), plan()),
    Case(
        "unknown group of a method",
        edited("methods", "groupdro", to={"groups": ["inkk"]}),
        ("methods.groupdro.groups:", "'ink'"),
        plan(),
    ),
    Case("environment twice", edited("environments", to=["ink", "ink"]), ("environments:", "twice"), plan()),
    Case("mixture without a supplement", edited("sampler", to={"mixture": 0.5}), ("sampler", "supplement", "none"), plan()),
    Case(
        "mixture of a method",
        edited("methods", "groupdro", to={"sampler": {"mixture": 0.5}}),
        ("methods.groupdro.sampler", "supplement"),
        plan(),
    ),
    Case(
        "noise matrix of another size",
        edited("label_noise", to={"matrix": [[1, 0], [0, 1]]}),
        ("label_noise.matrix:", "10 rows"),
        plan(),
    ),
    Case(
        "noise matrix row",
        edited("label_noise", to={"matrix": [[1, 0.5], [0, 1]]}),
        ("label_noise.matrix:", "row 0", "1.5"),
        plan(),
    ),
    Case(
        "one of many noises",
        edited("label_noise", to=[0.1, {"rate": 0.1, "kind": "flop"}]),
        ("label_noise.1.kind:", "'flip'"),
        plan(),
    ),
    Case("noise twice", edited("label_noise", to=[0.1, 0.1]), ("label_noise:", "once"), plan()),
    Case("rule without its set", edited("selection", to=["best-ood"]), ("selection:", "'ood-validation'", "last"), plan()),
    Case(
        "rule without rows",
        edited("data", "digits", "roles", to={"test": 2, "validation": 0}),
        ("selection:", "'validation'", "no rows"),
        plan(),
    ),
    Case("momentum of adam", edited("training", "momentum", to=0.9), ("training.momentum:", "sgd"), plan()),
    Case("unknown device", edited("training", "device", to="gpu"), ("training.device:", "'gpu'", "cuda"), plan()),
    Case("absent device", edited("training", "device", to="cuda:77"), ("training.device:", "'cuda:77'")),
    Case(
        "attributes without images",
        edited(
            "data",
            "digits",
            to={
                "source": "factors",
                "options": {"grid": {"digit": 2, "ink": 2}, "copies": 200},
                "label": "digit",
                "attributes": ["ink"],
            },
        ),
        ("no images",),
    ),
    Case(
        "sets of other sizes",
        edited("data", "big", to={"source": "digits", "options": {"size": 64}, "label": "digit", "attributes": ["ink"]}).replace(
            "sizes:", "sets:\n  validation: {role: validation, law: train}\n  test: {role: test, source: big}\nsizes:"
        ),
        ("data.big.options.size:", "64 x 64", "32 x 32"),
        plan(),
    ),
    # more tables
    Case("semicolons", of_table(), ("data.own", "';'", "commas"), plan(), lambda tmp: table(tmp, ROWS.replace(",", ";"))),
    Case(
        "line break in a value",
        of_table(),
        ("colour", "row 1", "line break"),
        plan(),
        lambda tmp: table(tmp, ROWS.replace("red", '"r\ned"')),
    ),
    Case(
        "UTF-16",
        of_table(),
        ("data.own", "UTF-16", "UTF-8"),
        plan(),
        lambda tmp: (table(tmp, ""), (tmp / "t.csv").write_bytes(ROWS.encode("utf-16")))[0],
    ),
    Case("column twice", of_table(), ("'y'", "twice"), plan(), lambda tmp: table(tmp, ROWS.replace("colour", "y"))),
    Case(
        "70,000 values",
        of_table(),
        ("colour", "70,000"),
        plan(),
        lambda tmp: table(tmp, "path,y,colour\n" + "".join(f"a.png,{i % 2},v{i}\n" for i in range(70_000))),
    ),
    Case(
        "truncated parquet",
        of_table(path="t.parquet"),
        ("t.parquet",),
        plan(),
        lambda tmp: table(tmp, "PAR1 and no more", "t.parquet"),
    ),
    Case("link to itself", of_table(), ("data.own.options.path:", "t.csv"), plan(), lambda tmp: os.symlink("t.csv", tmp / "t.csv")),
    Case(
        "store with broken text",
        None,
        ("store.sqlite", "damaged"),
        ("status", "{out}/store.sqlite"),
        lambda tmp: misspelt_store(tmp),
    ),
    # the command line
    Case("unknown verb", None, ("'rum'",), ("rum",)),
    Case("unknown option", edited("seeds", to=1), ("--worker",), ("run", "{study}", "--worker", "2")),
    Case("zero workers", edited("seeds", to=1), ("workers",), ("run", "{study}", "--workers", "0", "--out", "{out}")),
    Case("words for memory", edited("seeds", to=1), ("--memory: 'lots' is no amount",), ("run", "{study}", "--memory", "lots")),
    Case("words for workers", edited("seeds", to=1), ("workers",), ("run", "{study}", "--workers", "two", "--out", "{out}")),
    Case("set without a value", edited("seeds", to=1), ("--set", "key=value"), plan("--set", "training.steps")),
    Case("set of an unknown key", edited("seeds", to=1), ("training", "'stepz'", "'steps'"), plan("--set", "training.stepz=3")),
    Case("set of a wrong value", edited("seeds", to=1), ("training.steps", "whole number"), plan("--set", "training.steps=few")),
    Case("unknown scale", edited("seeds", to=1), ("--scale", "'huge'", "tiny"), plan("--scale", "huge")),
    Case("scale that is not there", edited("seeds", to=1), ("--scale", "'tiny'"), plan("--scale", "tiny")),
    Case("unknown kind", None, ("'methodz'", "'methods'"), ("list", "methodz")),
    Case("unknown name", None, ("'emr'", "'erm'"), ("show", "method", "emr")),
    Case("status without a store", None, ("out",), ("status", "{out}")),
    Case("report without a store", None, ("out",), ("report", "{out}")),
    Case("store that is no database", edited("seeds", to=1), ("store.sqlite",), prepare=broken_store),
    Case("store of another program", edited("seeds", to=1), ("store.sqlite",), prepare=newer_store),
    Case("report of an unreadable store", None, ("store.sqlite",), ("report", "{out}"), broken_store),
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
        lambda tmp: (tmp / "taken").write_text("x"),
    ),
]


def test_enough_cases() -> None:
    assert len(CASES) >= 130
    assert len({case.name for case in CASES}) == len(CASES)


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_one_sentence_status_two_nothing_written(case: Case, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    if case.text is not None:
        raw = case.text if isinstance(case.text, bytes) else case.text.encode()
        (tmp_path / "study.yaml").write_bytes(raw)
    if case.prepare is not None:
        case.prepare(tmp_path)
    before = _tree(tmp_path)
    words = {"study": str(tmp_path / "study.yaml"), "out": str(tmp_path / "out"), "tmp": str(tmp_path)}
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
    assert printed.err == "" and printed.out.startswith("Usage: crosswind") and len(printed.out.splitlines()) > 10


def test_a_bad_plan_never_opens_the_network_or_leaves_a_folder(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert _status(["run", "dmo"]) == 2
    assert os.listdir(tmp_path) == []
