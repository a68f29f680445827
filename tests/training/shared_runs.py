"""One process of several that train methods together: `python -m tests.training.shared_runs RANK COUNT
MEETING OUT NAME ...`. The weights of each run go to `OUT/RANK/NAME.pt`."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from tests.contract.test_methods import SETTINGS, made
from tests.training.world import run

from crosswind.training.several_devices import RankGroup, ranks_joined

MODELS = {
    "erm on norms": ("erm", {"model": "small-cnn"}),
    "erm in odd shares": ("erm", {"batch": 7}),
}
"""Further runs, by name: the method, and what is other than in the contract's."""


def shared(name: str, **changes: Any) -> Any:
    """A short run in double precision; by 9 steps of 16 rows, of which two processes take 8 each."""
    method, settings = MODELS.get(name, (name, SETTINGS.get(name, {})))
    return run(
        made(method),
        **{"steps": 9, "precision": "fp64", "validate_every": 3, **settings, **changes},
    )


def main(arguments: list[str]) -> None:
    """Train, and write the weights down."""
    torch.set_num_threads(1)
    rank, count, meeting, out = int(arguments[0]), int(arguments[1]), *map(Path, arguments[2:4])
    folder = out / str(rank)
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        ranks = stack.enter_context(ranks_joined(RankGroup(rank, count), meeting, "cpu"))
        for name in arguments[4:]:
            trajectory = shared(name, ranks=ranks, devices=count)
            torch.save(trajectory.weights("last"), folder / f"{name}.pt")


if __name__ == "__main__":
    main(sys.argv[1:])
