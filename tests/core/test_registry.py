"""Facts are read without importing, and agree with the classes."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from crosswind.core import registry
from crosswind.core.errors import InputError
from crosswind.core.knobs import knob, log, resolve

ROOMS_WITH_THINGS = {"methods": 2, "models": 4, "sources": 4, "shifts": 5, "transforms": 1}


@pytest.mark.parametrize("room", list(registry.ROOMS))
def test_facts_read_from_the_file_equal_the_class(room: str) -> None:
    for read in registry.listing(room):
        live = registry.facts_of_class(registry.load(room, read.name))
        for field in dataclasses.fields(read):
            assert getattr(read, field.name) == getattr(live, field.name), (read.name, field.name)
        assert room != "methods" or (read.limit is not None and read.needs is not None), (
            "declare needs and limit"
        )


def test_everything_registered_has_a_summary() -> None:
    registered = [known for room in registry.ROOMS for known in registry.listing(room)]
    assert len(registered) >= sum(ROOMS_WITH_THINGS.values())
    assert [known.name for known in registered if not known.summary] == []


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(
        InputError, match=r"methods.x: unknown method 'gruopdro', did you mean 'groupdro'\?.*erm"
    ):
        registry.facts("methods", "gruopdro", "methods.x")
    with pytest.raises(InputError, match="method"):
        registry.listing("methodz")


def test_a_class_of_the_running_program_is_listed_and_a_second_one_refused() -> None:
    @registry.register("of-this-test", kind="transform")
    @dataclass(frozen=True)
    class First:
        """A first."""

        amount: float = knob(0.5, domain="[0, 1]", search=log(0.1, 1), source="here")

    try:
        assert "of-this-test" in [transform.name for transform in registry.listing("transforms")]
        assert registry.load("transforms", "of-this-test") is First
        assert registry.facts("transforms", "of-this-test").knobs[0].search == log(0.1, 1)
        with pytest.raises(InputError, match="already registered"):

            @registry.register("of-this-test", kind="transform")
            class Second:
                """A second."""

    finally:
        registry.forget("transforms", "of-this-test")


def test_knobs_are_checked_by_type_and_domain() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Thing:
        eta: float = knob(0.1, domain="[0, 1)")
        steps: int = knob(3, domain="[1, inf)")
        kind: str = knob("a", domain="{a, b}")
        name: str = knob()
        on: bool = knob(False)
        most: int | None = knob(None, domain="[2, inf)")

    from crosswind.core.knobs import knobs_of

    knobs = knobs_of(Thing)
    assert resolve(knobs, {"name": "x", "eta": 0}, "m", "thing") == {
        "eta": 0.0,
        "steps": 3,
        "kind": "a",
        "name": "x",
        "on": False,
        "most": None,
    }
    assert isinstance(resolve(knobs, {"name": "x", "eta": 0}, "m", "thing")["eta"], float)
    for values, words in [
        ({}, "m.name: thing needs 'name'"),
        ({"name": "x", "eta": 1}, r"m.eta: must be in \[0, 1\), not 1"),
        ({"name": "x", "eta": "1"}, r"m.eta: must be a number in \[0, 1\), not '1'"),
        ({"name": "x", "eta": True}, "m.eta"),
        ({"name": "x", "eta": float("nan")}, "NaN"),
        ({"name": "x", "steps": 2.5}, "whole number"),
        ({"name": "x", "steps": None}, "not null"),
        ({"name": "x", "kind": "c"}, "valid: a, b"),
        ({"name": "x", "most": 1}, r"\[2, inf\)"),
        ({"name": "x", "eat": 1}, "did you mean 'eta'"),
    ]:
        with pytest.raises(InputError, match=words):
            resolve(knobs, values, "m", "thing")


def test_a_name_is_found_without_reading_the_whole_room() -> None:
    """By a process of its own: the files that this one has read are not forgotten."""
    code = """
from crosswind.core import registry
read = []
parsed = registry._parsed
registry._parsed = lambda path: read.append(path.name) or parsed(path)
groupdro = registry.facts("methods", "groupdro")
assert "groupdro.py" in read and "vicreg.py" not in read, read
assert groupdro == next(m for m in registry.listing("methods") if m.name == "groupdro")
assert "vicreg.py" in read and read.count("groupdro.py") == 1, read
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("written", ['"out" "side"', '"out\\x73ide"', "'outside'"])
def test_a_name_is_found_however_it_is_written(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "theirs.py"
    path.write_text(
        "from crosswind.core.registry import register\n"
        f'@register({written}, kind="transform")\nclass Outside:\n    """An outside one."""\n'
    )
    caches = (registry._scan, registry._find, registry._files_of_room)
    monkeypatch.setattr(registry, "_plugins", lambda: [("theirs", path)])
    for cached in caches:
        cached.cache_clear()
    try:
        assert registry.facts("transforms", "outside").qualname == "Outside"
        assert "outside" in [transform.name for transform in registry.listing("transforms")]
    finally:
        for cached in caches:
            cached.cache_clear()
