"""The parts of tools/golden.py: small studies and direct calls, each a function that gives
subject -> figures.

Everything is asked of the public surface alone: `crosswind.run_study`, the command line, and what
docs/ shows for Python. Where a name may move, `first_of` tries its old and its new place.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

Figures = dict[str, Any]
PARTS: dict[str, Callable[[Path], Figures]] = {}
"""Name of a part -> what computes it, given an empty folder to work in."""
SHARED = Path(os.environ.get("CROSSWIND_GOLDEN_DATA", "data/golden"))
"""Folder of the npz files with real pictures (mnist.npz, pacs64.npz, cifar10_test.npz); what is not
there is skipped."""


class Skipped(Exception):
    """A part that cannot be computed here, and why in a sentence."""


def part(name: str) -> Callable[[Callable[[Path], Figures]], Callable[[Path], Figures]]:
    """Register a part."""

    def registered(compute: Callable[[Path], Figures]) -> Callable[[Path], Figures]:
        PARTS[name] = compute
        return compute

    return registered


# --------------------------------------------------------------------------------------------------
# what figures are made of


def sha(*values: Any) -> str:
    """SHA-256 of arrays and texts, with shapes and dtypes, 16 digits."""
    total = hashlib.sha256()
    for value in values:
        if isinstance(value, str):
            total.update(value.encode())
        else:
            array = np.ascontiguousarray(value)
            total.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return total.hexdigest()[:16]


def first_of(*places: str) -> Any:
    """The first of `module:name` that can be imported: a thing may have moved, its name in the docs
    comes first."""
    for place in places:
        module, _, name = place.partition(":")
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise LookupError(f"none of {', '.join(places)} is there; name its new place here")


def command(*words: str, folder: Path | None = None) -> str:
    """What the command line prints; its exit status must be 0."""
    executable = Path(sys.executable).with_name("crosswind")
    done = subprocess.run(
        [executable, *words], capture_output=True, text=True, cwd=folder, check=False
    )
    if done.returncode:
        raise RuntimeError(f"crosswind {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def _as_text(cell: Any) -> Any:
    """A score as tables show it, and as the record has it."""
    if not isinstance(cell, dict):
        return cell
    half = "" if cell["half_width"] is None else f" ± {cell['half_width']:.3f}"
    marks = (" *" if cell.get("excludes_zero") else "") + (" †" if cell["doubted"] else "")
    return f"{cell['mean']:{'+' if 'excludes_zero' in cell else ''}.3f}{half}{marks}"


def study(
    name: str, values: Mapping[str, Any], folder: Path, *, tables: bool = False, workers: int = 0
) -> Figures:
    """Every metric of every run, rule and set of a study, its planned warnings, and perhaps the
    tables of its report."""
    import crosswind

    given = {"name": name, "seeds": 1, **values}
    results = crosswind.run_study(given, folder / "runs", workers=workers)
    figures: Figures = {}
    for row in results.rows:
        place = [
            str(row.get(key, ""))
            for key in (
                "data",
                "shift",
                "size",
                "model",
                "method",
                "point",
                "split_seed",
                "seed",
                "rule",
                "set",
            )
        ]
        entry: Figures = {"status": row["status"]}
        for key, value in (row["metrics"] or {}).items():
            if key == "groups":
                entry[key] = sha(
                    json.dumps(value, sort_keys=True)
                )  # a dozen groups of 3,000 rows would be a record of megabytes
            elif key == "doubts":
                entry[key] = len(value)
                entry["words"] = list(value)
            else:
                entry[key] = value
        if row["status"] == "failed":
            entry["words"] = [row["reason"]]
        subject, number = f"{name}: " + " | ".join(place), 2
        while subject in figures:
            subject, number = f"{name}: " + " | ".join(place) + f" ({number})", number + 1
        figures[subject] = entry
    figures[f"{name}: warnings"] = {"count": len(results.warnings), "words": list(results.warnings)}
    if tables:
        (told,) = json.loads(command("report", str(folder / "runs"), "--no-page", "--json"))[
            "studies"
        ]
        for table in told["tables"]:
            table["rows"] = [[_as_text(cell) for cell in row] for row in table["rows"]]
            if not table["name"].startswith("time"):
                figures[f"{name}: table {table['name']}"] = {
                    "columns": table["columns"],
                    "rows": table["rows"],
                }
    return figures


def plan(name: str, words: list[str], folder: Path) -> Figures:
    """The planned draws of a study: rows of each role, and a digest of the rows of all cells."""
    planned = json.loads(command("plan", *words, "--json", folder=folder))
    figures: Figures = {}
    for draw in planned["draws"]:
        cells = draw.get("cells", {})
        told = {
            key: value
            for key, value in draw.items()
            if isinstance(value, int | float | str) or value is None
        }
        subject = f"{name}: {draw['source']} | {draw['shift']} | {draw['size']}"
        figures[subject] = {
            **told,
            "cells": cells if len(cells) <= 16 else sha(json.dumps(cells, sort_keys=True)),
        }
    rest = {key: value for key, value in planned.items() if isinstance(value, int | float | str)}
    return {**figures, f"{name}: plan": rest}


def planned(name: str, values: Mapping[str, Any], folder: Path) -> Figures:
    """The planned draws of a study that is given as a mapping."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "plan.yaml"
    path.write_text(json.dumps({"name": name, **values}), encoding="utf-8")  # JSON is YAML
    return plan(name, [str(path)], folder)


def digits(**changed: Any) -> dict[str, Any]:
    """720 digits of four classes in three inks and three sizes, 16 pixels a side."""
    values = {
        "source": "digits",
        "options": {"size": 16},
        "label": "digit",
        "attributes": ["ink", "size"],
        "keep": {"digit": ["0", "1", "2", "3"]},
        "roles": {"test": 4, "validation": 0.2},
    }
    return {key: value for key, value in {**values, **changed}.items() if value is not None}


SC = {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2}
LDD = {"type": "low-data-drift", "attribute": "size", "low": "large", "ratio": 0.1}
UDS = {"type": "unseen-data", "attribute": "size", "unseen": "large"}
SHORT = {"steps": 4, "batch": 16, "validate_every": 2}


def base(**changed: Any) -> dict[str, Any]:
    """A study of an MLP on 120 digits under a spurious correlation, 4 steps; keyword arguments
    replace its fields."""
    values = {
        "data": {"digits": digits()},
        "shifts": {"SC": SC},
        "sizes": {"equal": {"total": 120}},
        "models": {"mlp": {"hidden": 32, "layers": 2}},
        "training": SHORT,
    }
    return {key: value for key, value in {**values, **changed}.items() if value is not None}


# --------------------------------------------------------------------------------------------------
# methods

METHODS: dict[str, list[dict[str, Any]]] = {
    "ada": [{}, {"phases": 1, "rate": 100.0, "gamma": 0.1}],
    "augmix": [{}, {"severity": 6, "width": 1}, {"width": 0}],
    "autoaugment": [{}, {"policy": "cifar10"}, {"policy": "svhn"}],
    "beta-vae": [{}, {"beta": 5.0, "latents": 8, "channels": 4, "share": 0.5}],
    "bn-adapt": [
        {},
        {"attribute": "size"},
        {"source_size": 0.0, "test_size": 4.0, "attribute": "ink"},
    ],
    "bpa": [{}, {"k": 2, "refresh": 2, "average": "exponential"}],
    "causirl-coral": [{}, {"weight": 0.3, "form": "covariance"}],
    "causirl-mmd": [{}, {"weight": 0.3, "estimate": "unbiased"}, {"widths": [0.5, 2.0]}],
    "cyclegan": [
        {"width": 4, "blocks": 1},
        {"width": 2, "blocks": 1, "share": 0.5, "by_class": False},
    ],
    "dann": [
        {},
        {"weight": 0.5, "schedule": "constant", "discriminator_steps": 2, "gradient_penalty": 1.0},
        {"width": 16, "layers": 1, "discriminator_lr": 0.01},
    ],
    "deepcoral": [{}, {"weight": 0.3, "form": "covariance"}],
    "erm": [{}],
    "groupdro": [{}, {"eta": 0.5, "adjustment": 2.0}],
    "imagenet": [{}, {"scale": 0.5, "flip": 0.0, "jitter": 0.8}],
    "irm": [
        {},
        {
            "anneal_steps": 2,
            "penalty_weight": 10.0,
            "estimate": "squared",
            "reset": False,
            "rescale": True,
        },
        {"anneal_steps": 0},
    ],
    "jtt": [{}, {"up": 5, "fit_at": None, "first": 0.5}],
    "l2d": [{}, {"augmenter_lr": 10.0, "beta": 1.0, "mix": 1.0}],
    "me-ada": [{}, {"phases": 1, "eta": 10.0}],
    "mixup": [{}, {"alpha": 1.0}],
    "mmd": [{}, {"weight": 0.3, "estimate": "unbiased"}, {"widths": [0.5, 2.0]}],
    "occamnets": [{}, {"answer": "last", "suppression": 1.0, "threshold": 0.2, "least_epochs": 0}],
    "pnd": [{}, {"probabilities": True, "alpha2": 4.0, "anchors": 4, "negatives": 3}],
    "randaugment": [{}, {"count": 1, "magnitude": 20, "operations": "shear-x"}, {"count": 0}],
    "sagnet": [
        {},
        {"weight": 1.0, "clip": None, "mixing": 0.5, "adversary_lr": 0.01},
        {"after": "block1"},
    ],
    "ubnet": [{}, {"probabilities": True, "channels": 8, "side": 4}],
}
"""Method -> settings beside which it is run; a method that is registered and not named here is run
at its defaults."""


def method_part(name: str, variants: list[dict[str, Any]]) -> Callable[[Path], Figures]:
    """A method with each of its settings, two networks, two shifts and two seeds."""

    def compute(folder: Path) -> Figures:
        entries = {
            f"{name}-{place}": {"method": name, **settings}
            for place, settings in enumerate(variants)
        }
        convolutional = name in ("bn-adapt", "occamnets", "pnd", "sagnet", "ubnet")
        values = base(
            shifts={"SC": SC, "SC+LDD": ["SC", LDD]},
            models=(
                {"small-cnn": {}}
                if convolutional
                else {"small-cnn": {}, "mlp": {"hidden": 32, "layers": 2}}
            ),
            environments=["size"],
            groups=["ink"],
            methods=entries,
            reference=f"{name}-0",
            training={"steps": 6, "batch": 18, "validate_every": 3, "lr": 0.003},
            selection=["best-id", "last"],
            seeds=2,
        )
        return study(name, values, folder)

    return compute


for _name, _variants in METHODS.items():
    PARTS[f"method-{_name}"] = method_part(_name, _variants)


SETTINGS_OF_OTHERS = {name: {"pairs": "class"} for name in ("cos", "mmd-align", "vicreg")}
"""Of methods whose defaults ask for an attribute that is drawn at each visit."""


@part("methods-others")
def methods_others(folder: Path) -> Figures:
    """Methods that are registered and have no part of their own yet: none when the record was
    made."""
    listed = json.loads(command("list", "methods", "--json"))
    names = [
        item["name"]
        for item in listed
        if item.get("kind") != "architecture" and item["name"] not in METHODS
    ]
    return (
        {}
        if not names
        else study(
            "others",
            base(
                methods={"erm": {}, **{name: SETTINGS_OF_OTHERS.get(name, {}) for name in names}},
                environments=["size"],
            ),
            folder,
        )
    )


# --------------------------------------------------------------------------------------------------
# shifts


@part("shifts")
def shifts(folder: Path) -> Figures:
    """Every shift with every setting, and combinations, planned and trained under."""
    sc = {"type": "spurious-correlation", "attribute": "ink"}
    ldd = {"type": "low-data-drift", "attribute": "size"}
    every: dict[str, Any] = {
        "none": [],
        "uniform": {"type": "uniform"},
        "SC": SC,
        "SC-0": {**sc, "counterexamples": 0},
        "SC-count": {**sc, "counterexamples": 7},
        "SC-uniform": {**sc, "counterexamples": "1/3", "counterexamples_from": "uniform"},
        "SC-strength": {**sc, "counterexamples": 0, "strength": 0.6},
        "SC-index": {**sc, "matching": "index"},
        "SC-map": {
            **sc,
            "matching": {"0": "blue", "1": ["red", "green"], "2": "green", "3": "red"},
        },
        "LDD": LDD,
        "LDD-third": {**ldd, "low": ["medium", "large"], "ratio": "1/3", "high": 2.0},
        "LDD-count": {**ldd, "low": "last", "count": 9},
        "LDD-class": {**ldd, "low": "first", "ratio": {"default": 0.5, "1": 0.0}},
        "UDS": UDS,
        "UDS-two": {**UDS, "unseen": ["small", "large"]},
        "systematic": {
            "type": "systematic",
            "environment": "ink",
            "classes": {"red": ["0", "1"], "green": "all", "blue": ["2"]},
        },
        "only": {"type": "only", "attribute": "size", "values": ["small", "medium"]},
        "only-classes": {"type": "only", "attribute": "digit", "values": ["0", "2"]},
        "SC+LDD": ["SC", "LDD"],
        "SC+UDS": ["SC", "UDS"],
        "LDD+UDS": [LDD, {"type": "unseen-data", "attribute": "ink", "unseen": "first"}],
        "SC+LDD+UDS": [SC, {**ldd, "low": "small", "ratio": 0.2}, "UDS"],
        "SC+systematic": ["SC", "systematic"],
        "SC-count+LDD-count": ["SC-count", "LDD-count"],
    }
    values = base(
        shifts=every,
        sizes={"all": "all", "n": {"total": 60}, "b": 3},
        training={**SHORT, "steps": 2, "validate_every": 2},
    )
    draws = planned("draws", values, folder / "plan")
    few = {name: every[name] for name in every if not name.startswith("SC-") or name == "SC-count"}
    trained = study(
        "shifts",
        {
            **values,
            "sizes": {"n": {"total": 60}},
            "shifts": few | {"SC-strength": every["SC-strength"]},
        },
        folder,
    )
    equal = study(
        "equal",
        {
            **values,
            "sizes": {"equal": "equal"},
            "shifts": {key: every[key] for key in ("none", "SC", "SC+UDS", "UDS")},
        },
        folder / "e",
    )
    return {**draws, **trained, **equal}


@part("split")
def split(folder: Path) -> Figures:
    """Rows that `crosswind.split` draws: training rows in order, validation and test rows, groups
    and environments."""
    import crosswind as cw

    dataset = cw.load("digits", size=8)
    sc, ldd, uds = (
        cw.SpuriousCorrelation("ink", counterexamples=0.2),
        cw.LowDataDrift("size", low="large", ratio=0.1),
        cw.UnseenData("size"),
    )
    cases: dict[str, tuple[Any, dict[str, Any]]] = {
        "none": (None, {}),
        "sc": (sc, {"draw": {"total": 240}, "test": 4}),
        "sc&ldd": (
            sc & ldd,
            {"draw": 5, "test": 0.25, "validation": 3, "groups": ["ink"], "environments": ["size"]},
        ),
        "ldd&sc": (ldd & sc, {"draw": 5, "test": 0.25, "validation": 3}),
        "sc&uds": (sc & uds, {"draw": "all", "label_noise": 0.2, "sampler": "reweight"}),
        "balanced": (ldd, {"sampler": "balanced", "draw": {"total": 300}}),
        "mixture": (sc, {"sampler": {"mixture": 0.3}, "draw": {"total": 300}}),
        "systematic": (cw.Systematic("ink", {"red": "all", "green": ["0", "1", "2"]}), {}),
        "only": (cw.Only("size", ["small"]), {}),
    }
    figures: Figures = {}
    for name, (shift, options) in cases.items():
        for seed, split_seed in ((0, 0), (1, 0), (0, 3)):
            made = cw.split(
                dataset,
                "digit",
                ["ink", "size"],
                shift,
                seed=seed,
                split_seed=split_seed,
                **options,
            )
            sets = {"train": made.train, **made.validation, **made.evaluation}
            figures[f"{name} seed {seed} of split {split_seed}"] = {
                key: [len(rows.rows), sha(np.asarray(rows.rows, np.int64))]
                for key, rows in sets.items()
            }
    return figures


# --------------------------------------------------------------------------------------------------
# conditions of a study


@part("sets")
def sets(folder: Path) -> Figures:
    """Laws and draws of sets, other data sets as targets, labels that are mapped, roles, units,
    official splits, overlaps."""
    figures = study(
        "laws",
        base(
            shifts={"SC+UDS": [SC, UDS]},
            sets={
                "validation": {"role": "validation", "law": "train"},
                "weights": {
                    "role": "validation",
                    "law": "without-supplements",
                    "draw": {"total": 30},
                },
                "ood-validation": {
                    "role": "validation",
                    "law": {"type": "only", "attribute": "ink", "values": "red"},
                },
                "target-validation": {"role": "validation", "law": "uniform", "draw": {"base": 1}},
                "test": {"role": "test", "law": "uniform"},
                "unseen": {"role": "test", "law": "unseen"},
                "as-trained": {"role": "test", "law": "train", "draw": {"total": 40}},
                "shifted": {"role": "test", "law": SC, "draw": "all"},
                "other": {
                    "role": "test",
                    "source": "others",
                    "law": "uniform",
                    "labels": {"0": "1", "1": "0", "2": "3", "3": None},
                },
            },
            data={
                "digits": digits(),
                "others": digits(options={"size": 16, "seed": 5}, roles={"test": 6}),
            },
            sizes={"equal": {"digits": {"total": 90}}},
            selection=["best-id", "best-ood", "best-target"],
        ),
        folder / "laws",
    )
    official = {"column": "part", "train": ["a", "b"], "test": ["d"], "validation": ["c"]}
    grid = {"label": ["x", "y", "z"], "tone": ["dark", "light"], "place": 4}
    factors = {
        "source": "factors",
        "options": {"grid": grid, "split": {"train": 12, "test": 5}, "title": "toy"},
        "label": "label",
        "attributes": {"first": "tone", "second": "place"},
        "roles": {
            "official": {"column": "split", "train": ["train"], "test": ["test"]},
            "validation": 0.25,
        },
    }
    law = {"role": "test", "law": {"type": "official", "column": "split", "values": "test"}}
    shifts = {
        "SC": {"type": "spurious-correlation", "attribute": "first"},
        "UDS": {"type": "unseen-data", "attribute": "second", "unseen": "last"},
    }
    figures |= planned(
        "official",
        {
            "data": {"toy": factors},
            "shifts": shifts,
            "sets": {"validation": {"role": "validation", "law": "train"}, "test": law},
        },
        folder / "official",
    )
    parts = "abcd"
    table = "label,tone,part,patient\n" + "".join(
        f"{'xy'[i % 2]},{'mn'[i // 3 % 2]},{parts[i % 7 % 4]},p{i // 5}\n" for i in range(240)
    )
    (folder / "table.csv").write_text(table, encoding="utf-8")
    own = {
        "source": "factors",
        "options": {"path": str(folder / "table.csv")},
        "label": "label",
        "attributes": ["tone"],
    }
    for name, more in {
        "parts": {"roles": {"official": official}},
        "unit": {"unit": "patient", "roles": {"test": 0.3, "validation": "1/4"}},
        "counts": {"roles": {"test": 6, "validation": 5}},
    }.items():
        shift = {
            "SC": {"type": "spurious-correlation", "attribute": "tone", "counterexamples": 0.1},
            "none": [],
        }
        figures |= planned(
            name,
            {"data": {"own": {**own, **more}}, "shifts": shift, "split_seed": 2},
            folder / name,
        )
    return figures


@part("samplers")
def samplers(folder: Path) -> Figures:
    """Every sampler, also one for an entry of a method."""
    figures: Figures = {}
    for name, sampler in {
        "uniform": "uniform",
        "reweight": "reweight",
        "balanced": "balanced",
        "mixture": {"mixture": 0.25},
    }.items():
        shifts = {"SC": SC} if name == "mixture" else {"SC": SC, "LDD": LDD}
        figures |= study(
            name,
            base(shifts=shifts, sampler=sampler, methods=["erm", "groupdro"], seeds=2),
            folder / name,
        )
    entries = {
        "erm": {},
        "erm-balanced": {"method": "erm", "sampler": "balanced"},
        "slow": {"method": "erm", "training": {"lr": 0.0001}},
    }
    return figures | study("entries", base(methods=entries), folder / "entries")


@part("selection")
def selection(folder: Path) -> Figures:
    """Every rule that picks a step or a point, on noisy short runs that validate every step."""
    sets = {
        "validation": {"role": "validation", "law": "train"},
        "ood-validation": {
            "role": "validation",
            "law": {"type": "only", "attribute": "ink", "values": "blue"},
        },
        "target-validation": {"role": "validation", "law": "uniform"},
        "test": {"role": "test", "law": "uniform"},
    }
    rules = [
        f"best-{which}{end}"
        for which in ("id", "ood", "target")
        for end in ("", "-worst-group", "-balanced-accuracy")
    ] + ["last"]
    training = {"steps": 10, "batch": 12, "validate_every": 1, "lr": [0.003, 0.02]}
    figures = study(
        "rules",
        base(sets=sets, selection=rules, training=training, seeds=2),
        folder / "rules",
        tables=True,
    )
    irm = {"irm": {"anneal_steps": 4}, "erm": {}}
    for early in (False, True):
        training = {"steps": 8, "batch": 12, "validate_every": 2, "select_before_switch": early}
        figures |= study(
            f"switch-{early}",
            base(methods=irm, environments=["size"], training=training),
            folder / f"{early}",
        )
    return figures


@part("noise")
def noise(folder: Path) -> Figures:
    """Label noise of every kind and rate, of validation labels too, and the size of the training
    set."""
    mixed = [
        [0.7, 0.1, 0.1, 0.1],
        [0.0, 1.0, 0.0, 0.0],
        [0.25, 0.25, 0.5, 0.0],
        [0.0, 0.0, 0.5, 0.5],
    ]
    kinds = [0.0, 0.15, {"rate": 0.3, "kind": "flip"}, {"rate": 0.2, "validation": True}]
    matrix = {"rate": 1.0, "kind": "matrix", "matrix": mixed}
    figures = study("kinds", base(label_noise=kinds, seeds=2), folder / "kinds")
    try:
        figures |= study("matrix", base(label_noise=matrix), folder / "matrix")
    except Exception:  # a matrix may be given without its kind
        figures |= study("matrix", base(label_noise={"matrix": mixed}), folder / "matrix2")
    return figures | study(
        "size",
        base(dataset_size=[40, 90], sizes=None, shifts={"SC": SC, "LDD": LDD}),
        folder / "size",
    )


@part("clusters")
def clusters(folder: Path) -> Figures:
    """An attribute from k-means, by every setting, in a study and from Python."""
    import crosswind as cw

    # Three blobs in six dimensions from integers alone, so that the file is the same everywhere.
    n = np.arange(1797)
    features = np.stack(
        [(n * step % 101) / 101 + (n % 3) * (step % 4) for step in (7, 13, 29, 31, 53, 71)], axis=1
    )
    np.save(folder / "features.npy", features)
    dataset, figures = cw.load("digits", size=8), {}
    for name, options in {
        "plain": {},
        "within": {"within": "digit"},
        "scaled": {"scale": "standard", "components": 3, "seed": 2},
        "unit": {"scale": "unit", "algorithm": "minibatch", "starts": 1},
        "fit": {"fit": {"ink": ["red"]}, "name": "blob"},
    }.items():
        found = cw.with_clusters(dataset, features, 4, **options)
        figures[name] = {
            "counts": json.loads(json.dumps(found.describe(), default=str)).get("attributes", "")
        }
        spec = {"features": str(folder / "features.npy"), "k": 4, **options}
        attribute = options.get("name", "cluster")
        data = {"digits": digits(attributes=[attribute], clusters=spec, roles={"test": 0.3})}
        shift = {
            "SC": {"type": "spurious-correlation", "attribute": attribute, "counterexamples": 0.2}
        }
        figures |= study(
            name, base(data=data, shifts=shift, sizes={"equal": {"total": 60}}), folder / name
        )
    return figures


DERIVED: dict[str, dict[str, Any]] = {
    "randaugment": {"count": 2, "magnitude": 12},
    "rotate": {"degrees": 90, "draw": "fixed"},
    "translate": {"horizontal": 0.25},
    "shear": {"horizontal": 20.0},
}
"""Settings of transforms in derived attributes; the others are at their defaults."""


@part("derived")
def derived(folder: Path) -> Figures:
    """Every transform as a derived attribute, fixed and per visit: planned, trained on,
    evaluated."""
    listed = [item["name"] for item in json.loads(command("list", "transforms", "--json"))]
    figures: Figures = {}
    for place, name in enumerate(listed):
        derive = {
            "name": "state",
            "transform": name,
            "values": {"plain": None, "changed": DERIVED.get(name, {})},
        }
        for mode in (
            ("fixed", "per-visit") if place % 6 == 0 or name == "gaussian-noise" else ("fixed",)
        ):
            data = {
                "digits": digits(
                    attributes=["state"],
                    derive={**derive, "mode": mode},
                    roles={"test": 8, "validation": 0.2},
                )
            }
            shift = {
                "SC": {"type": "spurious-correlation", "attribute": "state", "counterexamples": 0.1}
            }
            values = base(
                data=data,
                shifts=shift,
                sizes={"equal": {"total": 60}},
                training={"steps": 2, "batch": 12, "validate_every": 2},
            )
            figures |= study(f"{name}-{mode}", values, folder / f"{name}-{mode}")
    turned = {
        f"by {degrees}": {"degrees": degrees, "draw": "fixed"} if degrees else None
        for degrees in (0, 90, 180, 270)
    }
    data = {
        "digits": digits(
            attributes=["turned", "size"],
            derive={"name": "turned", "transform": "rotate", "values": turned},
        )
    }
    shift = {
        "systematic": {
            "type": "systematic",
            "environment": "turned",
            "classes": {"by 0": "all", "by 90": ["0", "1"], "by 180": ["2"]},
        }
    }
    return figures | study(
        "turned", base(data=data, shifts=shift, methods=["erm", "groupdro"]), folder / "turned"
    )


@part("grids")
def grids(folder: Path) -> Figures:
    """Grids of settings, a random search, several split seeds, a list of seeds, claims,
    corrections, and their tables."""
    claims = [
        {"text": "DRO raises the worst group", "better": "groupdro", "metric": "worst_group"},
        {
            "text": "DRO is better",
            "better": "groupdro",
            "than": "erm",
            "set": "test",
            "metric": "balanced_accuracy",
        },
        {
            "text": "a wide net is better",
            "better": {"method": "erm", "model": "wide"},
            "than": {"method": "erm", "model": "narrow"},
        },
    ]
    models = {
        "narrow": {"model": "mlp", "hidden": 4, "layers": 1},
        "wide": {"model": "mlp", "hidden": 48, "layers": 1},
    }
    methods = {"erm": {}, "groupdro": {"eta": [0.01, 0.5]}}
    training = {"steps": 12, "batch": 16, "validate_every": 4, "lr": [0.003, 0.03]}
    values = base(models=models, methods=methods, training=training, claims=claims, groups=["ink"])
    figures = study(
        "grid",
        {**values, "seeds": [3, 5, 8, 13], "sizes": {"small": {"total": 90}}},
        folder / "grid",
        tables=True,
    )
    crossed = {
        **values,
        "methods": ["erm", "groupdro"],
        "seeds": 2,
        "split_seeds": 3,
        "multiplicity": "fdr",
        "shifts": {"SC": SC, "LDD": LDD},
    }
    figures |= study("crossed", crossed, folder / "crossed", tables=True)
    search = {
        **values,
        "claims": [],
        "methods": ["erm", "groupdro", "irm"],
        "environments": ["size"],
        "search": {"points": 3, "seed": 4},
    }
    search["training"] = SHORT
    figures |= study(
        "search", {**search, "models": {"narrow": models["narrow"]}}, folder / "search", tables=True
    )
    lone = {
        **values,
        "seeds": [1, 2, 3],
        "multiplicity": "none",
        "split_seed": 7,
        "claims": claims[:1],
        "training": SHORT,
    }
    return figures | study(
        "alone", {**lone, "methods": ["erm", "groupdro"]}, folder / "alone", tables=True
    )


@part("training")
def training(folder: Path) -> Figures:
    """Every setting of the loop."""
    cases: dict[str, dict[str, Any]] = {
        "adamw": {"optimiser": "adamw", "weight_decay": 0.1},
        "adam-decay": {"optimiser": "adam", "weight_decay": 0.1},
        "sgd": {"optimiser": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 0.01},
        "epochs": {"epochs": 0.5, "steps": 50},
        "patience": {"patience": 1, "steps": 40, "validate_every": 1},
        "stop": {"stop_at": 0.4, "steps": 60, "validate_every": 3, "lr": 0.01},
        "fit": {"fit_at": 0.4, "steps": 60, "validate_every": 20, "lr": 0.01},
        "fp64": {"precision": "fp64"},
        "bf16": {"precision": "bf16"},
        "batches": {"evaluation_batch": 7, "checkpoint_seconds": 0, "channels_last": False},
        "whole": {"batch": 500},
        "uneven": {"steps": 7, "validate_every": 3},
    }
    figures: Figures = {}
    for name, settings in cases.items():
        models = {"small-cnn": {}, "mlp": {"hidden": 32, "layers": 2}}
        values = base(models=models, training={**SHORT, **settings}, methods=["erm"])
        figures |= study(name, values, folder / name)
    return figures | study(
        "workers", base(methods=["erm", "groupdro"], seeds=2), folder / "workers", workers=2
    )


# --------------------------------------------------------------------------------------------------
# models and sources

MODELS: dict[str, dict[str, Any]] = {
    "mlp": {"model": "mlp"},
    "mlp-deep": {"model": "mlp", "hidden": 8, "layers": 6},
    "small-cnn": {"model": "small-cnn"},
    "resnet-w16": {"model": "resnet-w16"},
    "resnet-w16-1": {"model": "resnet-w16", "stride": 1},
    "resnet18": {"model": "resnet18"},
    "resnet18-small": {"model": "resnet18", "stem": "small", "inputs": "imagenet"},
    "resnet50": {"model": "resnet50"},
    "vit-tiny": {"model": "vit-tiny", "patch": 8, "depth": 2},
    "timm-resnet": {"model": "timm", "name": "test_resnet"},
    "timm-vit": {"model": "timm", "name": "test_vit", "side": 160},
    "timm-efficientnet": {
        "model": "timm",
        "name": "test_efficientnet",
        "inputs": "imagenet",
        "side": 48,
    },
}


def few_digits(**changed: Any) -> dict[str, Any]:
    """A study of 24 training and 24 test digits of 32 pixels, 2 steps: for large networks."""
    data = digits(
        options={"size": 32},
        roles={"test": 1, "validation": 2},
        attributes=["ink"],
        keep={"digit": ["0", "1"], "size": ["large"]},
    )
    training = {"steps": 2, "batch": 4, "validate_every": 2, "evaluation_batch": 8}
    sets = {
        "validation": {"role": "validation", "law": "train", "draw": {"total": 4}},
        "test": {"role": "test", "law": "uniform"},
    }
    return base(
        **{
            "data": {"digits": data},
            "shifts": {"none": []},
            "sizes": {"n": {"total": 12}},
            "training": training,
            "sets": sets,
            **changed,
        }
    )


@part("models")
def models(folder: Path) -> Figures:
    """Every model that needs no download, and pretrained files: a run's own, with frozen statistics
    and with another head."""
    figures: Figures = {}
    for name, settings in MODELS.items():
        figures |= study(name, few_digits(models={name: settings}), folder / name)
    data = {
        "digits": digits(
            options={"size": 32},
            attributes=["ink"],
            keep={"digit": ["0", "1", "2"], "size": ["small"]},
            roles={"test": 2, "validation": 2},
        )
    }
    first = few_digits(
        models={"net": {"model": "resnet-w16"}, "r18": {"model": "resnet18"}},
        keep="all",
        data=data,
        methods=["erm"],
    )
    study("kept", first, folder / "kept")
    files = sorted((folder / "kept").rglob("*.safetensors"))
    from safetensors.numpy import load_file

    for path in sorted(files, key=lambda path: (path.name, path.stat().st_size)):
        tensors = load_file(path)
        figures[f"kept: {path.name} of {len(tensors)} tensors"] = sha(
            *(item for key in sorted(tensors) for item in (key, tensors[key]))
        )
    weights = max(
        (path for path in files if "best-id" in path.name), key=lambda path: path.stat().st_size
    )
    tuned = {
        "file": {"model": "resnet18", "weights": str(weights)},
        "frozen": {"model": "resnet18", "weights": str(weights), "freeze_batch_norm": True},
    }
    return figures | study(
        "pretrained", few_digits(models=tuned, methods=["erm", "bn-adapt"]), folder / "tuned"
    )


@part("models-large")
def models_large(folder: Path) -> Figures:
    """The two largest networks, one step on two rows."""
    training = {"steps": 1, "batch": 2, "validate_every": 1, "evaluation_batch": 2}
    sets = {
        "validation": {"role": "validation", "law": "train", "draw": {"total": 2}},
        "test": {"role": "test", "law": "uniform", "draw": {"total": 2}},
    }
    return study(
        "large", few_digits(models=["resnet101", "vit-b-16"], training=training, sets=sets), folder
    )


def pictures(folder: Path) -> Path:
    """A folder PLACE/KIND/N.png and .jpg of 96 pictures made by integer arithmetic, with a table of
    them."""
    from PIL import Image

    rows = ["file,kind,place,who"]
    y, x = np.mgrid[0:20, 0:26]
    for number in range(96):
        kind, place = ("ring", "bar", "dot")[number % 3], ("sea", "wood")[number // 3 % 2]
        red, green, blue = (
            (x * 7 + number * 5) % 256,
            (y * 11 + 80 * (number % 3)) % 256,
            (x * y + 60 * (number // 3 % 2)) % 256,
        )
        image = Image.fromarray(np.stack([red, green, blue], axis=2).astype(np.uint8))
        name = f"{place}/{kind}/{number}.{'png' if number % 4 else 'jpg'}"
        (folder / "pictures" / name).parent.mkdir(parents=True, exist_ok=True)
        image.save(folder / "pictures" / name, **({} if name.endswith("png") else {"quality": 90}))
        rows.append(f"{name},{kind},{place},w{number // 6}")
    (folder / "table.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder / "pictures"


def looked_at(dataset: Any, rows: np.ndarray) -> Figures:
    """Digests of the pixels and attributes of some rows, and how many rows there are."""
    pixels = dataset.pixels(rows) if hasattr(dataset, "pixels") else dataset.inputs(rows)
    return {
        "rows": dataset.n_rows,
        "pixels": sha(np.asarray(pixels)),
        "shape": list(np.asarray(pixels).shape),
        "ids": sha(np.asarray(dataset.row_ids(rows), np.int64)),
    }


@part("sources")
def sources(folder: Path) -> Figures:
    """Every source that needs no download: pixels of some rows, and a run."""
    import crosswind as cw

    made = pictures(folder)
    table = {
        "path": str(folder / "table.csv"),
        "images": str(made),
        "path_column": "file",
        "size": 16,
    }
    tree = {"path": str(made), "levels": ["place", "kind"], "size": 12}
    cases: list[tuple[str, str, dict[str, Any], int]] = [
        ("digits", "digits", {}, 1797),
        ("digits-48", "digits", {"size": 48, "seed": 3}, 1797),
        ("dsprites", "dsprites", {"size": 32}, 737280),
        ("dsprites-64", "dsprites", {"size": 64}, 737280),
        ("dsprites-hard", "dsprites", {"size": 16, "antialias": False, "seed": 1}, 737280),
        ("shapes3d", "shapes3d", {}, 480000),
        ("shapes3d-32", "shapes3d", {"size": 32}, 480000),
        ("table", "table", table, 96),
        ("image-folder", "image-folder", tree, 96),
    ]
    figures: Figures = {}
    for name, source, options, rows in cases:
        figures[f"{name}: pixels"] = looked_at(
            cw.load(source, **options), np.arange(0, rows, max(1, rows // 40) | 1)[:40]
        )
    for name, source, options in (
        ("table", "table", table),
        ("image-folder", "image-folder", tree),
    ):
        copy = folder / f"prepared-{name}"
        cw.prepare(source, root=str(copy), **options)
        figures[f"{name}: prepared"] = looked_at(
            cw.load(source, root=str(copy), **options), np.arange(96)
        )
        cw.prepare(source, root=str(copy) + "-jpeg", store="jpeg", **options)
        figures[f"{name}: prepared as JPEG"] = looked_at(
            cw.load(source, root=str(copy) + "-jpeg", **options), np.arange(96)
        )
    colour = {"type": "spurious-correlation", "attribute": "object_color", "counterexamples": 0.1}
    keep = {"scale": [0.8, 0.9, 1.0], "x": list(range(12, 16)), "y": list(range(12, 16))}
    sprites = {
        "source": "dsprites",
        "options": {"size": 16},
        "label": "shape",
        "attributes": ["object_color", "scale"],
        "keep": keep,
        "roles": {"test": 4},
    }
    figures |= study(
        "dsprites", base(data={"dsprites": sprites}, shifts={"SC": colour}), folder / "dsprites"
    )
    keep = {"floor_hue": [0.0], "wall_hue": [0.0, 0.5], "orientation": "all"}
    rooms = {
        "source": "shapes3d",
        "label": "shape",
        "attributes": {"first": "object_hue", "second": "wall_hue"},
        "keep": {key: value for key, value in keep.items() if value != "all"},
        "roles": {"test": 2},
    }
    hue = {"type": "spurious-correlation", "attribute": "first", "counterexamples": 0.1}
    figures |= study(
        "shapes3d", base(data={"shapes3d": rooms}, shifts={"SC": hue}), folder / "shapes3d"
    )
    place = {"type": "spurious-correlation", "attribute": "place", "counterexamples": 0.1}
    own = {
        "source": "table",
        "options": table,
        "label": "kind",
        "attributes": ["place"],
        "unit": "who",
        "roles": {"test": 0.3},
    }
    figures |= study(
        "table", base(data={"own": own}, shifts={"SC": place}, sizes={"n": "all"}), folder / "table"
    )
    photos = {
        "source": "image-folder",
        "options": tree,
        "label": "kind",
        "attributes": ["place"],
        "roles": {"test": 4},
    }
    return figures | study(
        "folder",
        base(data={"photos": photos}, shifts={"SC": place}, sizes={"n": "all"}),
        folder / "folder",
    )


@part("real-pictures")
def real_pictures(folder: Path) -> Figures:
    """Photographs, digits and renditions from the shared npz files, as a table and as folders of
    PNG."""
    from PIL import Image

    missing = [
        name
        for name in ("mnist.npz", "pacs64.npz", "cifar10_test.npz")
        if not (SHARED / name).exists()
    ]
    if missing:
        raise Skipped(
            f"{', '.join(missing)} is not in {SHARED}; CROSSWIND_GOLDEN_DATA names the folder"
        )
    figures: Figures = {}
    pacs, mnist, cifar = (
        dict(np.load(SHARED / name, allow_pickle=False))
        for name in ("pacs64.npz", "mnist.npz", "cifar10_test.npz")
    )
    for number in range(0, len(pacs["label"]), 23):
        label, domain = (
            pacs["label_names"][pacs["label"][number]],
            pacs["domain_names"][pacs["domain"][number]],
        )
        target = folder / "pacs" / str(domain) / str(label)
        target.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pacs["images"][number]).save(target / f"{number}.png")
    tree = {"path": str(folder / "pacs"), "levels": ["style", "class"], "size": 32}
    data = {
        "pacs": {
            "source": "image-folder",
            "options": tree,
            "label": "class",
            "attributes": ["style"],
            "roles": {"test": 0.4},
        }
    }
    shift = {"UDS": {"type": "unseen-data", "attribute": "style", "unseen": "sketch"}}
    sets = {
        "validation": {"role": "validation", "law": "train"},
        "target": {"role": "test", "law": "unseen"},
    }
    values = base(
        data=data, shifts=shift, sets=sets, sizes={"n": {"total": 100}}, models={"small-cnn": {}}
    )
    figures |= study("pacs", {**values, "methods": ["erm", "imagenet"]}, folder / "p")
    for name, images, labels in (
        ("mnist", mnist["test_images"], mnist["test_label"]),
        ("cifar", cifar["images"], cifar["label"]),
    ):
        (folder / name).mkdir()
        lines, middle = ["path,class,light"], images[::10].mean()
        for number in range(0, 4000, 10):
            Image.fromarray(images[number]).save(folder / name / f"{number}.png")
            lines.append(
                f"{number}.png,c{labels[number]},{'high' if images[number].mean() > middle else 'low'}"
            )
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        options = {"path": str(folder / f"{name}.csv"), "images": str(folder / name), "size": 28}
        data = {
            name: {
                "source": "table",
                "options": options,
                "label": "class",
                "attributes": ["light"],
                "roles": {"test": 0.3},
            }
        }
        shift = {
            "LDD": {"type": "low-data-drift", "attribute": "light", "low": "low", "ratio": 0.3}
        }
        figures |= study(
            name,
            base(data=data, shifts=shift, sizes={"n": "all"}, models={"small-cnn": {}}),
            folder / f"{name}-out",
        )
    return figures


# --------------------------------------------------------------------------------------------------
# transforms


def test_pictures() -> Iterator[tuple[str, np.ndarray]]:
    """uint8 [n, c, h, w]: gradients with noise, in colour and grey, square and not, from integers
    alone."""
    for name, (n, c, h, w) in {
        "colour": (6, 3, 32, 32),
        "grey": (4, 1, 24, 37),
        "large": (2, 3, 64, 72),
    }.items():
        i, k, y, x = np.indices((n, c, h, w))
        yield (
            name,
            (
                (
                    x * 5
                    + y * 3
                    + k * 40
                    + i * 31
                    + (x * 7919 + y * 104729 + i * 1299709 + k * 15485863) % 97
                )
                % 256
            ).astype(np.uint8),
        )


def settings_of(name: str, knobs: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A transform at its defaults, and with every setting at each of its choices or at the ends of
    a range that is closed."""
    yield "defaults", {}
    for item in knobs:
        domain = str(item["domain"])
        if domain.startswith("{"):
            choices: list[Any] = domain.strip("{}").split(", ")
        elif domain.startswith("[") and domain.endswith("]"):
            numbers = [float(word) for word in domain.strip("[]").split(", ")]
            whole = item["type"].startswith("int")
            choices = [int(number) for number in numbers] if whole else numbers
            if item["name"] == "severity" and numbers == [1, 5]:
                choices = [1, 2, 3, 4, 5]
            if numbers[-1] > 100 and whole:
                choices = [choices[0], 40]
        else:
            continue
        for choice in choices:
            yield f"{item['name']}={choice}", {item["name"]: choice}
            if (
                item["name"] == "severity"
                and choice in (1, 4)
                and any(other["name"] == "constants" for other in knobs)
            ):
                yield (
                    f"severity={choice}, constants=imagenet",
                    {"severity": choice, "constants": "imagenet"},
                )
    for extra in EXTRA.get(name, []):
        yield ", ".join(f"{key}={value}" for key, value in extra.items()), extra


EXTRA: dict[str, list[dict[str, Any]]] = {
    "rotate": [
        {"degrees": 90, "draw": "fixed"},
        {"degrees": 180, "draw": "fixed", "interpolation": "nearest"},
        {"degrees": 90, "draw": "multiples", "step": 30},
    ],
    "shear": [{"vertical": 20.0, "interpolation": "bilinear", "fill": 128}],
    "randaugment": [
        {"count": 4, "magnitude": 30, "draw": "uniform"},
        {"count": 3, "resampling": "each"},
    ],
    "augmix": [{"width": 2, "depth": 2, "alpha": 0.5, "severity": 8}],
    "imagenet": [{"hue": 0.4, "jitter": 0.2}, {"hue": 0.4, "hue_model": "matrix"}],
    "erase": [{"largest": 0.1, "smallest": 0.1, "draw": "fixed", "fill": 77}],
    "flip-crop": [{"scale": 0.5, "narrowest": 0.5, "widest": 2.0}],
    "translate": [{"horizontal": 0.5, "vertical": -0.25, "draw": "fixed", "fill": 9}],
}


@part("transforms")
def transforms(folder: Path) -> Figures:
    """The bytes of every transform with every setting, on fixed pictures with fixed keys; of floats
    too, and of neighbourhoods."""
    import torch

    load, hash64 = first_of("crosswind.core.registry:load"), first_of("crosswind.core.seeds:hash64")
    refused = first_of("crosswind.core.errors:InputError")
    torch.set_num_threads(1)
    figures: Figures = {}
    images = {name: torch.from_numpy(array) for name, array in test_pictures()}
    for item in json.loads(command("list", "transforms", "--json")):
        for label, settings in settings_of(item["name"], item["knobs"]):
            try:
                built = load("transforms", item["name"])(**settings)
            except refused:  # two settings that do not go together
                figures[f"{item['name']}: {label}"] = "refused"
                continue
            few = [*images] if label == "defaults" or label.startswith("severity=3") else ["colour"]
            for name in few:
                batch = images[name]
                figures[f"{item['name']}: {label}: {name}"] = sha(
                    built(batch, hash64(np.arange(len(batch)), 7)).numpy()
                )
            if label == "defaults":
                floats = images["colour"].float() / 255
                figures[f"{item['name']}: {label}: floats"] = sha(
                    built(floats, hash64(np.arange(len(floats)), 8)).numpy()
                )
    neighbourhood = first_of("crosswind.transforms.neighbourhood:neighbourhood")
    for name in ("ni-randaugment", "ni-translate", "ni-erase", "ni-flipcrop"):
        around = neighbourhood(name)
        for large in (False, True):
            built = load("transforms", around.transform)(**around.knobs(large=large))
            one = images["colour"][:1].repeat(10, 1, 1, 1)
            figures[f"{name}: large {large}"] = sha(built(one, hash64(np.arange(10), 1)).numpy())
    return figures


@part("texts")
def texts(folder: Path) -> Figures:
    """The words of every text transform on fixed sentences."""
    load, hash64 = first_of("crosswind.core.registry:load"), first_of("crosswind.core.seeds:hash64")
    sentences = [
        [
            "The",
            "acting",
            "was",
            "not",
            "very",
            "good",
            ",",
            "but",
            "the",
            "story",
            "is",
            "a",
            "masterpiece",
            ".",
        ],
        ["Great", "book", "."],
        ["word"],
        [
            "I",
            "would",
            "happily",
            "buy",
            "this",
            "small",
            "machine",
            "again",
            "because",
            "it",
            "makes",
            "excellent",
            "coffee",
            "quickly",
            "every",
            "single",
            "morning",
        ],
    ]

    def built(name: str, **settings: Any) -> Any:
        try:
            return load("text-transforms", name)(**settings)
        except LookupError:
            return load("transforms", name)(**settings)

    cases: dict[str, Any] = {
        "eda": [
            {},
            {"delete": 0.5, "swap": 0},
            {"replace": 1.0, "insert": 0, "swap": 0, "delete": 0},
            {"replace": 0, "insert": 0.5, "swap": 0, "delete": 0},
        ],
        "random-replacement": [
            {"vocabulary": ["film", "dog", "rain"]},
            {"vocabulary": ["film", "dog", "rain"], "rate": 0.6},
        ],
    }
    figures: Figures = {}
    for name, variants in cases.items():
        for settings in variants:
            for seed in range(6):
                label = ", ".join(f"{key}={value}" for key, value in settings.items())
                figures[f"{name}: {label}: {seed}"] = [
                    " ".join(text)
                    for text in built(name, **settings)(sentences, hash64(np.arange(4), seed))
                ]
    return figures


# --------------------------------------------------------------------------------------------------
# statistics, audits, the rest


@part("statistics")
def statistics(folder: Path) -> Figures:
    """Intervals, paired differences, corrections and ranks of fixed numbers."""
    compare = "crosswind.evaluation.compare"
    names = ("summary", "over_runs", "paired", "holm", "benjamini_hochberg", "mean_ranks", "Seeds")
    summary, over_runs, paired, holm, fdr, ranks, seeds = (
        first_of(f"{compare}:{name}") for name in names
    )
    values = [((7 * i * i + 3 * i) % 23) / 29 for i in range(12)]
    crossed = {seeds(i, j): values[(4 * i + j) % 12] + i / 50 for i in range(3) for j in range(4)}
    other = {
        key: value + ((key.split * 3 + key.seed * 5) % 7) / 40 for key, value in crossed.items()
    }
    single = dict(enumerate(values))
    holed = {key: value for key, value in crossed.items() if key != seeds(1, 2)}
    p = {"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.5}
    blocks = [{"a": 0.5, "b": 0.5, "c": 0.7}, {"a": 0.1, "b": 0.2, "c": 0.3}, {"a": 0.4, "b": 0.1}]
    found = {
        "summary": summary(values),
        "summary 0.9": summary(values[:3], 0.9),
        "one": summary(values[:1]),
        "crossed": over_runs(crossed),
        "holed": over_runs(holed),
        "paired": paired(single, {key: 1 - value for key, value in single.items()}),
        "paired crossed": paired(crossed, other),
        "paired holed": paired(holed, other),
        "ranks": ranks(blocks),
    }
    figures = {
        name: {
            key: value if isinstance(value, dict | int | float | None) else str(value)
            for key, value in vars(item).items()
        }
        for name, item in found.items()
    }
    return {**figures, "holm": holm(p), "fdr": fdr(p)}


@part("report")
def report(folder: Path) -> Figures:
    """Every number that `crosswind report --format csv` gives of a study of three seeds."""
    study(
        "report", base(methods=["erm", "groupdro"], seeds=3, shifts={"SC": SC, "LDD": LDD}), folder
    )
    lines = csv.DictReader(
        command("report", str(folder / "runs"), "--no-page", "--format", "csv").splitlines()
    )
    return {
        f"line {number}": {"words": line.pop("doubts"), **line} for number, line in enumerate(lines)
    }


@part("audit")
def audit(folder: Path) -> Figures:
    """The audits of two fixed tables, as JSON."""
    import crosswind as cw

    def table(rows: int, step: int, tie: int, cameras: str) -> dict[str, list[Any]]:
        n = np.arange(rows)
        mixed = (n * 2654435761 + step * 40503) % 1009
        bird = mixed % 3
        place = np.where(mixed % 10 < tie, bird, (mixed // 7) % 3)
        sky = np.where(mixed % 5 < 4, place, (mixed // 11) % 3)
        light = np.where((n * 7 + step) % (25 if tie else 4) == 0, 2, (n // 2) % 2)
        camera = [cameras[int(k)] for k in (mixed // 13) % len(cameras)]
        height = ((mixed * 37) % 211) / 7 + (3.0 * bird if tie else 0.0)
        names = {
            "bird": ["gull", "owl", "wren"],
            "place": ["sea", "forest", "garden"],
            "sky": ["blue", "green", "grey"],
            "light": ["day", "dusk", "night"],
        }
        codes = {"bird": bird, "place": place, "sky": sky, "light": light}
        return {
            **{key: [names[key][int(code)] for code in codes[key]] for key in names},
            "camera": camera,
            "height": height.tolist(),
        }

    def flat(value: Any, name: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, item in value.items():
                yield from flat(item, f"{name}.{key}")
        elif isinstance(value, list | tuple):
            for place, item in enumerate(value):
                yield from flat(item, f"{name}.{place}")
        elif not isinstance(value, str) or len(value) < 40:  # longer texts are prose
            yield name, value

    figures: Figures = {}
    train = table(1500, 1, 9, "abc")
    for name, (target, options) in {
        "all": (table(1200, 2, 0, "abcd"), {}),
        "columns": (table(1200, 2, 0, "abcd"), {"columns": ["place", "light"], "seed": 3}),
        "none": (table(900, 5, 9, "abc"), {}),
    }.items():
        found = cw.audit(train, target, "bird", **options).to_json()
        figures |= {
            f"{name}: audit": dict(
                flat(
                    json.loads(found) if isinstance(found, str) else json.loads(json.dumps(found)),
                    "",
                )
            )
        }
    return figures


@part("python")
def python(folder: Path) -> Figures:
    """The main job from Python: load, split, derive, train, evaluate."""
    import crosswind as cw

    figures: Figures = {}
    attribute, derive = (
        first_of("crosswind.data.derive:DerivedAttribute"),
        first_of("crosswind.data.derive:derive"),
    )
    plain = cw.load("digits", size=16)
    foggy = derive(plain, attribute("fog", ("clear", "dense"), "fog", (None, {"severity": 4})))
    for name, dataset, axes in (("plain", plain, ["ink", "size"]), ("foggy", foggy, ["fog"])):
        made = cw.split(
            dataset,
            "digit",
            axes,
            cw.SpuriousCorrelation(axes[0], counterexamples=0.1),
            draw={"total": 200},
            test=2,
        )
        for method in ("erm", "groupdro"):
            trained = cw.train(
                method, made, dataset, model="mlp", steps=6, validate_every=3, batch=16, seed=2
            )
            for place, scores in cw.evaluate(trained, made).items():
                told = {key: value for key, value in scores.items() if key != "groups"}
                figures[f"{name}: {method}: {place}"] = {
                    **told,
                    "groups": sha(json.dumps(scores.get("groups"), sort_keys=True)),
                }
    return figures


@part("small-networks")
def small_networks(folder: Path) -> Figures:
    """Heads and small networks trained as one, as docs/guides/many-small-networks.md has them."""
    import torch

    one, many = "crosswind.training.linear_probes:", "crosswind.training.many_networks:"
    before = "crosswind.training.heads:"
    member = first_of(before + "Member", many + "Member")
    train_heads, logistic = (
        first_of(before + "train_heads", one + "train_probes"),
        first_of(before + "logistic_heads", one + "logistic_probes"),
    )
    train_stack = first_of(before + "train_stack", many + "train_stack")
    stack_of = first_of("crosswind.training.stacked:Stack", many + "Stack")
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(120, 16, generator=generator)
    y = features[:, :3].argmax(1)
    members = [
        member(lr=lr, weight_decay=decay, seed=seed)
        for seed in range(2)
        for lr in (1e-2, 1e-3)
        for decay in (0.0, 0.1)
    ]
    figures: Figures = {
        "heads": sha(
            train_heads(features, y, 3, members, steps=8, batch=32)
            .logits(features)
            .detach()
            .numpy()
        )
    }
    few = [member(weight_decay=0.01, rows=np.arange(n)) for n in (50, 100)]
    figures["logistic"] = sha(
        logistic(features, y, 3, few, tolerance=1e-3).logits(features).detach().numpy().round(3)
    )
    torch.manual_seed(3)
    stack = stack_of(
        [
            torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
            for _ in range(3)
        ]
    )
    losses = train_stack(
        stack, features, y, [member(lr=1e-2, seed=seed) for seed in range(3)], steps=6, batch=32
    )
    return {
        **figures,
        "stack": sha(losses.detach().numpy(), stack.logits(features[None]).detach().numpy()),
    }


@part("plans")
def plans(folder: Path) -> Figures:
    """The plans of the shipped studies that need no data."""
    figures: Figures = {}
    for word, scale in (
        ("demo", None),
        ("demo", "tiny"),
        ("jeon2025/sizes", None),
        ("methods/all", None),
        ("methods/all", "tiny"),
    ):
        figures |= plan(
            f"{word} {scale or ''}".strip(), [word, *(["--scale", scale] if scale else [])], folder
        )
    return figures


@part("surface")
def surface(folder: Path) -> Figures:
    """What is registered with which settings, the options of every command, the fields of a study,
    and the public names."""
    import crosswind

    figures: Figures = {"names": dict.fromkeys(crosswind.__all__, 1)}
    rooms = ("methods", "models", "sources", "shifts", "transforms")
    for kind in (*rooms, "text-transforms", "vector-transforms"):
        try:
            listed = json.loads(command("list", kind, "--json"))
        except RuntimeError:
            if kind in rooms:
                raise
            continue  # texts and vectors may have become transforms like others
        for item in listed:
            figures[f"{kind}: {item['name']}"] = {
                knob["name"]: [knob["type"], knob["default"], knob["domain"]]
                for knob in item.get("knobs", [])
            } | {"version": item.get("version")}
    helped = command("--help")
    for verb in re.findall(r"^  ([a-z]+) ", helped.partition("Commands:")[2], flags=re.MULTILINE):
        figures[f"crosswind {verb}"] = dict.fromkeys(
            re.findall(r"--[a-z][a-z-]*", command(verb, "--help")), 1
        )
    schema = json.loads(command("schema"))
    figures["study file"] = dict.fromkeys(schema["properties"], 1)
    for name, kind in schema.get("$defs", {}).items():
        figures[f"study file: {name}"] = dict.fromkeys(kind.get("properties", {}), 1)
    return figures
