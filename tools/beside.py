"""Old and new code side by side: a study of a record, run in two trees of the package.

The golden record cannot speak for every record of an effect. Some methods have no part in it, some
records are of code that is not the code of its figures, and its last digits are those of one kind
of processor. Here the study of the record itself is run twice on the same machine, once by the
package as a commit has it and once as it stands, and everything that the runs leave is compared
bit by bit: scores, losses, predictions and weights. So neither machine nor record is trusted.

The study runs as its file says, at full length and with all its points, but with its first seed
alone. The seeds of the file are those for exploring, so that no held-out row is looked at.

    python tools/beside.py STUDY FOLDER SETTING ...

runs one study into FOLDER with the package of PYTHONPATH and prints the figures as JSON; that is
how each side runs in a process of its own. Records of costs are of no study: for them each side
computes a part of golden.py (`PART FOLDER`).
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ROOT / "benchmarks" / "effects"
SPENT = ("seconds", "doubts", "words")
"""Of a history, of scores and of golden figures: what says nothing of what was computed. How many
sentences a run says of itself is no figure, as in carry.py."""

INSTRUCTION_LIMITS = (
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "MKL_ENABLE_INSTRUCTIONS",
    "NPY_DISABLE_CPU_FEATURES",
)
"""Variables of the environment by which torch, oneDNN, MKL and NumPy do without vector
instructions."""

Figures = dict[str, str]
"""What a study left -> SHA-256 of it, 16 hexadecimal digits: `row ...` the scores of a set, `history
...`, and `FILE NAME ...` an array of predictions or weights."""


def figures(study: Path, folder: Path, settings: Sequence[str]) -> Figures:
    """Run a study into `folder` with the package that is imported here; see `Figures`.

    What belongs to a run is named by the run's key, which both sides must give alike.
    """
    import crosswind

    results = crosswind.run_study(study, folder, workers=0, settings=list(settings))
    by_name: Figures = {}
    for number, row in enumerate(results.rows):
        if row["status"] == "failed":
            raise SystemExit(f"a run failed: {row['reason']}")
        labels = {key: value for key, value in row.items() if isinstance(value, str | int)}
        scores = _without_spent(row["metrics"])
        by_name[f"row {number}"] = _sha(json.dumps([labels, scores], sort_keys=True).encode())
    for path in sorted((folder / "artifacts").glob("*/*/*")):
        name = f"{path.name} {path.parent.name}"
        if path.name == "history.json":
            history = _without_spent(json.loads(path.read_text(encoding="utf-8")))
            by_name[name] = _sha(json.dumps(history, sort_keys=True).encode())
        elif path.suffix in (".npz", ".safetensors"):
            by_name |= {f"{name} {array}": sha for array, sha in _arrays(path).items()}
    return by_name


def _without_spent(value: Any) -> Any:
    """A JSON value without the fields `SPENT` of its mappings, however deep."""
    if isinstance(value, Mapping):
        return {key: _without_spent(inner) for key, inner in value.items() if key not in SPENT}
    if isinstance(value, list):
        return [_without_spent(inner) for inner in value]
    return value


def _arrays(path: Path) -> Figures:
    """Name -> SHA-256 of each array of a file, with its dtype and shape."""
    if path.suffix == ".npz":
        import numpy as np

        with np.load(path, allow_pickle=False) as arrays:
            return {
                name: _sha(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
                for name, array in arrays.items()
            }
    import torch
    from safetensors.torch import load_file

    return {
        name: _sha(
            f"{tensor.dtype}{tuple(tensor.shape)}".encode()
            + tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()
        )
        for name, tensor in load_file(path).items()
    }


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def differences(old: Figures, new: Figures) -> list[str]:
    """The names of what differs, or is on one side only, in order."""
    return sorted(name for name in {*old, *new} if old.get(name) != new.get(name))


def _first_difference(old: Figures, new: Figures) -> str:
    """How many figures differ and which one is the first, in a sentence; empty where none does."""
    differing = differences(old, new)
    if not differing:
        return ""
    return f"{len(differing)} of {len(old)} figures differ, first {differing[0]}"


def resolved(commit: str) -> str:
    """The full name of a commit. Raises `SystemExit` where git knows none."""
    answer = subprocess.run(
        ["git", "rev-parse", "--verify", f"{commit}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise SystemExit(f"git knows no commit {commit!r}: {answer.stderr.strip()}")
    return answer.stdout.strip()


def machine_hash() -> str:
    """A hash of what last digits depend on beside the code, 8 hexadecimal digits: what one kind of
    processor left is not compared with what another one leaves."""
    from tools.golden import machine

    limits = {name: os.environ.get(name) for name in INSTRUCTION_LIMITS}
    return _sha(json.dumps([machine(), limits], sort_keys=True).encode())[:8]


class Beside:
    """The package of a commit beside the present one; `steps` caps the length of every training, by
    default none.

    `kept`: a folder for what the old side leaves. A comparison that is repeated after another edit
    of the present files runs the new side alone.
    """

    def __init__(self, commit: str, *, steps: int | None = None, kept: Path | None = None) -> None:
        self.commit = resolved(commit)
        self._scratch = tempfile.TemporaryDirectory()
        scratch = Path(self._scratch.name)
        self._kept = scratch if kept is None else kept
        self._steps = steps
        self.tree = scratch / "tree"
        archive = subprocess.run(
            ["git", "archive", self.commit, "src"], cwd=ROOT, capture_output=True, check=True
        )
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
            files.extractall(self.tree, filter="data")
        self._compared: dict[str, tuple[str, dict[str, Any]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Remove the tree of the commit, and what the old side left unless it is kept."""
        self._scratch.cleanup()

    def compare(self, subject: str) -> tuple[str, dict[str, Any]]:
        """Run the study of a subject on both sides: the first differences in a sentence, empty where
        there are none, and what was run."""
        if subject not in self._compared:
            self._compared[subject] = self._compare(subject)
        return self._compared[subject]

    def _compare(self, subject: str) -> tuple[str, dict[str, Any]]:
        study = STUDIES / f"{subject}.yaml"
        if not study.exists():
            return f"there is no study {study.relative_to(ROOT)}", {}
        settings = self.settings(study)
        capped = "whole" if self._steps is None else f"{self._steps}-steps"
        old_folder = self._kept / self.commit[:12] / machine_hash() / capped / subject
        old, new = self._both_sides(study, old_folder, settings)
        evidence = {
            "commit": self.commit,
            "study": f"{subject}.yaml",
            "settings": settings,
            "rows": sum(name.startswith("row ") for name in old),
            "arrays": sum(
                name.partition(" ")[0].endswith((".npz", ".safetensors")) for name in old
            ),
            "sha256": hashlib.sha256(json.dumps(old, sort_keys=True).encode()).hexdigest(),
        }
        if not evidence["rows"] or not evidence["arrays"]:
            return "the study left nothing to compare", evidence
        return _first_difference(old, new), evidence

    def compare_part(self, part: str) -> tuple[str, dict[str, Any]]:
        """Compute a part of golden.py on both sides; as `compare`."""
        with tempfile.TemporaryDirectory() as old_folder:
            old, new = self._both_sides(part, Path(old_folder), [])
        evidence = {
            "commit": self.commit,
            "golden_part": part,
            "subjects": len(old),
            "sha256": hashlib.sha256(json.dumps(old, sort_keys=True).encode()).hexdigest(),
        }
        return _first_difference(old, new), evidence

    def _both_sides(
        self, subject: Path | str, old_folder: Path, settings: Sequence[str]
    ) -> tuple[Figures, Figures]:
        """The figures of a study, or of a part of golden.py, by the old and by the present
        package."""
        with tempfile.TemporaryDirectory() as new_folder:
            old = self._side(self.tree / "src", subject, old_folder, settings)
            new = self._side(ROOT / "src", subject, Path(new_folder), settings)
        return old, new

    def settings(self, study: Path) -> list[str]:
        """What is asked of the study beside its file: its first seed, weights that are kept, and
        the cap of steps."""
        from crosswind.studies.spec import load_study

        first_seed = load_study(str(study)).seed_list[0]
        settings = [f"seeds=[{first_seed}]", "keep=selected"]
        return settings if self._steps is None else [*settings, f"training.steps={self._steps}"]

    def _side(
        self, source: Path, subject: Path | str, folder: Path, settings: Sequence[str]
    ) -> Figures:
        """The figures of a study or a part by the package under `source`, in a process of its
        own."""
        folder.mkdir(parents=True, exist_ok=True)
        # Each side on one thread: how sums are split among threads is no matter of the code.
        environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-P", str(Path(__file__)), str(subject), str(folder), *settings]
        run = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
        if run.returncode:
            raise SystemExit(f"{subject} could not be run with {source}")
        by_name: Figures = json.loads(run.stdout.splitlines()[-1])
        return by_name


def part_figures(part: str, folder: Path) -> Figures:
    """Subject -> SHA-256 of the figures that a part of golden.py has of it, but for sentences and
    their number."""
    sys.path.insert(0, str(ROOT))
    from tools.golden_parts import PARTS

    subjects = json.loads(json.dumps(PARTS[part](folder), default=str))
    hashes = {}
    for subject, figures_of_subject in subjects.items():
        if not subject.endswith(": warnings"):
            text = json.dumps(_without_spent(figures_of_subject), sort_keys=True)
            hashes[subject] = _sha(text.encode())
    return hashes


def main() -> None:
    import crosswind

    source = Path(os.environ["PYTHONPATH"])
    if not Path(crosswind.__file__).is_relative_to(source):
        raise SystemExit(f"crosswind is loaded from {crosswind.__file__}, not from {source}")
    subject, folder, *settings = sys.argv[1:]
    if subject.endswith(".yaml"):
        by_name = figures(Path(subject), Path(folder), settings)
    else:
        by_name = part_figures(subject, Path(folder))
    print(json.dumps(by_name))


if __name__ == "__main__":
    main()
