"""What every test runs under: one thread, repeatable properties, no network."""

from __future__ import annotations

import gc
import os
import random
import socket
import sys
from pathlib import Path
from typing import Any

# Read by the libraries when they are first imported, and inherited by the processes that tests
# start.
for _name in (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "POLARS_MAX_THREADS",
):
    os.environ[_name] = "1"

# Pictures of a test's files are not kept in the user's folder.
os.environ["CROSSWIND_DECODED_GIB"] = "0"

import pytest  # noqa: E402  (after the variables above)
from hypothesis import settings  # noqa: E402

settings.register_profile(
    "crosswind", derandomize=True, deadline=None, database=None, print_blob=True
)
settings.load_profile("crosswind")


def pytest_collection() -> None:
    """No garbage is looked for while tests are collected: they make a million objects that stay,
    and to look at them again and again takes a third of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What was collected is old from here on, and rarely looked at again."""
    gc.collect()
    gc.enable()


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the repository."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _one_torch_thread_and_the_same_random_numbers_in_any_order() -> None:
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    # Tests that never import torch must not pay for it.
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
        sys.modules["torch"].manual_seed(0)


def _is_of_this_machine(host: str) -> bool:
    """Whether an address is one of this machine's, as the head of a cluster has it: only these can be
    bound to, and what is sent to them leaves by no network."""
    with socket.socket() as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return host not in ("", "0.0.0.0")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def local_only(self: socket.socket, address: object) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = address[0] if isinstance(address, tuple) else str(address)
            if host not in ("127.0.0.1", "::1", "localhost") and not _is_of_this_machine(host):
                raise RuntimeError(f"a test tried to reach the network: {host}")
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", local_only)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """`crosswind run` executes its jobs in this process, whatever its `--workers`: a worker costs
    seconds of processor time to start, and is tested by the drills."""
    from crosswind.execution import running

    real = running.engine_of

    def inline(*arguments: Any, **settings: Any) -> Any:
        return real(*arguments, **{**settings, "workers": 0})

    monkeypatch.setattr(running, "engine_of", inline)
