"""How values become keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crosswind.core.types import DigestPattern, canonical, canonical_values, digest


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"100%": "50%", "%s": {"%d": "%s"}, "a%": "%%"},
        {"seed": 3, "method": {"name": "erm", "knobs": {"b": 0.1, "a": None}}, "needs": ("k", "l")},
        {'é"\\': "\ud800", "a b": [1, {"z": np.int64(4), "y": True}], "B": 1e-320, "a": "\x1f"},
    ],
)
def test_the_digest_of_a_pattern_is_that_of_the_mapping(values: dict[str, Any]) -> None:
    texts = canonical_values(values)
    assert DigestPattern(texts, []).of() == digest(values)
    for name, text in texts.items():
        shared = {other: texts[other] for other in texts if other != name}
        assert DigestPattern(shared, [name]).of(text) == digest(values)
        assert DigestPattern(shared, [name]).of(canonical("another")) != digest(values)
    in_order = [texts[name] for name in sorted(texts)]
    assert DigestPattern({}, list(texts)).of(*in_order) == digest(values)
    assert DigestPattern(texts, ["more"]).of("1") == digest({**values, "more": 1})


def test_what_has_no_canonical_form_is_refused() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        canonical({"a": float("nan")})
    with pytest.raises(TypeError, match="canonical"):
        digest({"a": object()})
