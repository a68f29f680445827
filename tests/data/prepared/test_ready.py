"""Which sources are said to be ready."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from tests.data.prepared.toys import Toy, write_originals

from crosswind.core.registry import facts, listing
from crosswind.data.prepared import prepare
from crosswind.data.prepared.paths import readiness


def said(root: Path) -> dict[str, str]:
    return {name: state.text for name, state in readiness(listing("sources"), root).items()}


def test_ready_is_what_can_be_opened(tmp_path: Path) -> None:
    originals, root = str(write_originals(tmp_path / "originals")), tmp_path / "root"
    before = said(root)
    assert {before["digits"], before["factors"], before["table"]} == {"always"} and before["toy"] == before["toy-in-red"] == "no"
    prepare(Toy(root=str(root), flip=True), originals=originals)
    assert said(root)["toy"] == said(root)["toy-in-red"] == "in part (flip=True)"
    prepare(Toy(root=str(root)), originals=originals)
    assert said(root)["toy"] == "ready (flip=True)"
    states = readiness([facts("sources", "toy")], root)
    assert [Path(copy["folder"]).name for copy in states["toy"].copies] == ["toy", "toy-flip=true"]
    prepare(Toy(root=str(root), words="a long word " * 3), originals=originals)
    assert said(root)["toy"] == "ready (2 with settings)"
    shutil.rmtree(readiness([facts("sources", "toy")], root)["toy"].copies[-1]["folder"])
    os.truncate(root / "toy/pixels.npy", 10)
    assert said(root)["toy"] == "in part (flip=True)"
    card = json.loads((root / "toy-flip=true/prepared.json").read_text())
    for changed in ({"version": 9}, {"format": 9}, {"source": "digits"}, {"settings": []}, {"files": []}):
        (root / "toy-flip=true/prepared.json").write_text(json.dumps({**card, **changed}))
        assert said(root)["toy"] == "no", changed
    assert said(root)["digits"] == "always"
    assert len(before) >= 6
