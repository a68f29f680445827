"""The toys are registered for the tests of this folder and then taken out again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.data.prepared import toys

from crosswind.core import registry


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CROSSWIND_DATA", raising=False)
    with toys.registered():
        yield
    assert "toy" not in [source.name for source in registry.listing("sources")]
