"""Facts are read without importing, and agree with the classes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

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
