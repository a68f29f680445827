"""Every program beside the package can be started: what it imports is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for room in ("benchmarks/speed", "benchmarks/papers", "tools")
    for path in (ROOT / room).glob("*.py")
)
# In a process of its own: some programs set the number of threads before they import torch.
CODE = """
import importlib, json, sys
faults = {}
for name in json.loads(sys.argv[1]):
    try:
        importlib.import_module(name)
    except Exception as error:
        faults[name] = f"{type(error).__name__}: {error}"
print(json.dumps(faults))
"""


@pytest.mark.slow
def test_what_every_program_imports_is_there() -> None:
    assert len(PROGRAMS) >= 50
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(PROGRAMS)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {}
