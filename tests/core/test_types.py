"""How values become keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crosswind.core.types import canonical, canonical_values, digest, digest_texts


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"seed": 3, "method": {"name": "erm", "knobs": {"b": 0.1, "a": None}}, "needs": ("k", "l")},
        {'é"\\': "\ud800", "a b": [1, {"z": np.int64(4), "y": True}], "B": 1e-320, "a": "\x1f"},
    ],
)
def test_the_digest_of_texts_is_that_of_the_mapping(values: dict[str, Any]) -> None:
    assert digest_texts(canonical_values(values)) == digest(values)
    assert digest_texts(dict(reversed(canonical_values(values).items()))) == digest(values)
    assert digest_texts({**canonical_values(values), "more": canonical(1)}) != digest(values)


def test_what_has_no_canonical_form_is_refused() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        canonical({"a": float("nan")})
    with pytest.raises(TypeError, match="canonical"):
        digest({"a": object()})
