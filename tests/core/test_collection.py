"""Python's search for garbage, held back while many values are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from crosswind.core.collection import no_collection


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    enabled = gc.isenabled()
    yield
    gc.unfreeze()
    (gc.enable if enabled else gc.disable)()


def _is_in(generation: int | None, value: object) -> bool:
    return any(each is value for each in gc.get_objects(generation))


@pytest.mark.slow
def test_values_of_before_are_old_afterwards_and_are_looked_through_no_more() -> None:
    gc.enable()
    with no_collection():
        assert not gc.isenabled()
        values = [[]]
    assert gc.isenabled() and gc.get_freeze_count() == 0
    assert _is_in(2, values) and _is_in(2, values[0])


@pytest.mark.slow
def test_garbage_of_inside_is_collected_afterwards() -> None:
    class Node:
        pass

    with no_collection():
        node = Node()
        node.itself = node  # type: ignore[attr-defined]
        del node
    gc.collect()
    assert not any(type(each) is Node for each in gc.get_objects())


@pytest.mark.slow
def test_what_the_program_froze_stays_frozen() -> None:
    gc.enable()
    gc.freeze()
    frozen = gc.get_freeze_count()
    with no_collection():
        values = [[]]
    assert gc.get_freeze_count() >= frozen - 100 > 0 and gc.isenabled()
    assert not _is_in(2, values)


def test_a_program_that_collects_nothing_is_left_so() -> None:
    gc.disable()
    with no_collection():
        pass
    assert not gc.isenabled()
