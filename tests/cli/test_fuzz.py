"""A good study with values changed at random places: planned, or refused in one sentence; never an exception.

`CROSSWIND_FUZZ` is the number of studies (150). A study is made from its number alone, so a failure is seen again by its number.
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from crosswind.cli.main import _status

GOOD: dict[str, Any] = {
    "name": "fuzz",
    "data": {
        "digits": {
            "source": "digits",
            "options": {"size": 16, "seed": 0},
            "label": "digit",
            "attributes": ["ink", "background", "noise"],
            "keep": {"size": ["small", "medium"]},
            "roles": {"test": 2, "validation": 0.2},
            "derive": {
                "name": "noise",
                "transform": "gaussian-noise",
                "values": {"clean": None, "noisy": {"severity": 3}},
                "mode": "per-visit",
            },
        },
        "table": {
            "source": "factors",
            "options": {
                "grid": {"digit": 10, "ink": ["red", "green", "blue"], "background": 3, "noise": 2},
                "split": {"a": 4, "b": 2},
            },
            "label": "digit",
            "attributes": {"first": "ink", "second": "background", "third": "noise"},
            "roles": {"test": 0.5, "official": {"column": "split", "train": ["a"], "test": ["b"]}},
        },
    },
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2, "matching": "auto", "strength": 1.0},
        "LDD": {
            "type": "low-data-drift",
            "attribute": "background",
            "low": "last",
            "ratio": {"default": "1/3", "last": 0},
            "high": 3,
        },
        "UDS": {"type": "unseen-data", "attribute": "ink", "unseen": ["red"]},
        "SYS": {"type": "systematic", "environment": "ink", "classes": {"red": ["0", "1"], "green": "all", "blue": [2, 3]}},
        "both": ["SC", "UDS"],
    },
    "sizes": {"equal": {"total": 60}, "few": {"digits": {"SC": 1, "none": "all"}}},
    "sets": {
        "validation": {"role": "validation", "law": "train"},
        "test": {"role": "test", "draw": {"total": 40}},
        "other": {"role": "test", "law": "UDS", "source": "table", "labels": {"0": "1", "3": None}},
    },
    "groups": ["ink"],
    "environments": ["ink", "background"],
    "sampler": "balanced",
    "label_noise": [0.1, {"rate": 0.2, "kind": "flip"}],
    "dataset_size": [50, 60],
    "models": {"mlp": {"hidden": 32}, "small-cnn": {}},
    "methods": {"erm": {}, "groupdro": {"eta": [0.1, 0.2], "training": {"lr": 0.01}, "sampler": "uniform", "groups": ["ink"]}},
    "training": {"steps": 2, "validate_every": 1, "batch": 8, "optimiser": "adam", "device": "cpu", "patience": 3},
    "selection": ["best-id", "last"],
    "reference": "erm",
    "search": None,
    "claims": [
        {"text": "it helps", "better": "groupdro", "shift": "SC", "set": "other", "metric": "worst_group", "rule": "last"},
        {"text": "it is wide", "better": {"method": "erm", "model": "mlp"}, "than": {"method": "erm", "model": "small-cnn"}},
    ],
    "seeds": [0, 1],
    "split_seed": 3,
    "keep": "none",
    "time_limit": 100,
    "scales": {"tiny": {"seeds": 1}},
}
STRANGE: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 1.5, -0.5, 1e308, 5e-324, 2**62, 2**63 - 1, -(2**63), 10**6, 70_000),
    *("", " ", "x", "erm", "ink", "digit", "red", "all", "equal", "first", "last", "uniform", "train", "1/3", "-1/3", "1/0", "nan"),
    *("inf", "1e400", "0", "1.0", "true", ".", "..", "a\nb", "é\u202e", "x" * 2000, "digits", "table", "mlp", "both"),
    *([], [[]], [None], ["x", "x"], [1, 1], [True], [1, "a"], [{"type": "uniform"}], [{"rate": 0.1}], list(range(20))),
    *({}, {"a": 1}, {"a": None}, {"": 1}, {"x.y": 1}, {"type": "only"}, {"total": 3}, {"total": 1.5}, {"total": "x"}, {"base": 0}),
    *({"base": 1e300}, {"base": "1/7"}, {"total": 10**15}, {"a": {"b": {"c": {}}}}, {"mixture": 2}, {"mixture": 0.5}),
    *({"rate": 0.1, "kind": "flip"}, {"matrix": [[1]]}, {"matrix": "x"}, {"red": {"0": 1}}, {"default": 1e-300}, {"0": None}),
]  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _places(inner, (*path, key))


def _inside(study: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        study = study[key]
    return study


def mutated(number: int) -> dict[str, Any]:
    """The good study with one to three places changed, removed, renamed or exchanged."""
    draw, study = random.Random(number), copy.deepcopy(GOOD)
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        places = list(_places(study))
        path = draw.choice(places)
        parent, turn = _inside(study, path[:-1]), draw.random()
        if turn < 0.75:
            parent[path[-1]] = copy.deepcopy(draw.choice(STRANGE))
        elif turn < 0.85:
            del parent[path[-1]]
        elif turn < 0.93:
            parent[path[-1]] = copy.deepcopy(_inside(study, draw.choice(places)))
        elif isinstance(parent, dict):
            parent[draw.choice(["x", f"{path[-1]}s", "type", "", f"{path[-1]} "])] = parent.pop(path[-1])
        else:
            parent.append(copy.deepcopy(draw.choice(STRANGE)))
    return study


def _planned(study: dict[str, Any], folder: Path, capsys: Any) -> tuple[int, list[str]]:
    place = folder / "study.yaml"
    place.write_text(yaml.safe_dump(study, sort_keys=False, allow_unicode=True))
    status = _status(["plan", str(place)])
    return status, capsys.readouterr().err.splitlines()


def test_the_study_that_is_changed_is_good(tmp_path: Path, capsys: Any) -> None:
    status, told = _planned(GOOD, tmp_path, capsys)
    assert status == 0, told


def test_a_study_with_strange_values_is_planned_or_refused_in_one_sentence(tmp_path: Path, capsys: Any) -> None:
    number = int(os.environ.get("CROSSWIND_FUZZ", "150"))
    found = {0: 0, 2: 0}
    for i in range(number):
        try:
            status, told = _planned(mutated(i), tmp_path, capsys)
        except Exception as error:
            pytest.fail(f"study {i}: {type(error).__name__}: {error}")
        assert status in found, f"study {i}: status {status}"
        found[status] += 1
        errors = [line for line in told if line.startswith("error: ")]
        assert len(errors) == (status == 2), f"study {i}: {told}"
        assert all(line.startswith(("error: ", "warning: ")) for line in told), f"study {i}: {told}"
        # What was written is quoted in part only, so the field and the choices are not lost beside it.
        assert all(len(line) < 1100 and "xxxxx" * 30 not in line for line in errors), f"study {i}: {told}"
    assert os.listdir(tmp_path) == ["study.yaml"]
    if number >= 100:
        assert min(found.values()) > 5, found
