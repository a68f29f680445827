"""How many rounds a drill has: three in the slow tests, a hundred in the long drills.

A round starts whole programs, 5 to 15 seconds of processor time. The slow rounds are the same ones
every time, so each must be of another kind; chance is for the long drills.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

SLOW = int(os.environ.get("CROSSWIND_DRILL_ROUNDS", "3"))
LONG = max(100, 10 * SLOW)


def rounds() -> pytest.MarkDecorator:
    """`number` runs over the rounds; each number is the seed of its round."""
    slow: list[Any] = [pytest.param(number, marks=pytest.mark.slow) for number in range(SLOW)]
    long: list[Any] = [
        pytest.param(number, marks=pytest.mark.verify) for number in range(SLOW, SLOW + LONG)
    ]
    return pytest.mark.parametrize("number", slow + long)
