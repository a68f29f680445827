"""Every program beside the package runs at its smallest, in a copy of the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.benchmarks.test_programs import PROGRAMS, ROOT

SPEED = "benchmarks.speed"
PAPERS = "benchmarks.papers"
SMALLEST = {
    f"{SPEED}.all": "--only split --rounds 1 --record speed.json",
    f"{SPEED}.augmentations": "--rounds 1 --batch 4 --size 32 --only randaugment --no-kornia",
    f"{SPEED}.contents": "--rows 20 --rounds 1",
    f"{SPEED}.convolution": "--rounds 1 --batch 2",
    f"{SPEED}.corrupted_evaluation": "--images 4 --passes 1 --naive 1",
    f"{SPEED}.corruptions": "--rounds 1 --batch 2 --side 32 --only contrast --no-kornia",
    f"{SPEED}.decoded_files": "--files 20 --side 32 --rounds 1",
    f"{SPEED}.default_tests": "--rounds 1 tests/core/test_seeds.py",
    f"{SPEED}.drawing": "--rounds 1 --pictures 8 --size 16",
    f"{SPEED}.estimate": "--rows 40 --classes 3 --pool 3 --rounds 0 --estimators ni-erase,cbpe",
    f"{SPEED}.evaluation": "--rounds 1 --models small-cnn --only inference",
    f"{SPEED}.growth": "--only split,plan --decades 1 --rounds 1",
    f"{SPEED}.label_scores": "--rounds 1 --labels 2",
    f"{SPEED}.loop": "--rounds 1 --steps 2 --models mlp",
    f"{SPEED}.many_runs": "--runs 20 --commands plan",
    f"{SPEED}.memory": "--rows 200 --sides 16 --rounds 1",
    f"{SPEED}.method_cost": "--rounds 0.01 --models mlp --methods erm",
    f"{SPEED}.million": "--rows 1000 --side 16 --rounds 1 --batches 1",
    f"{SPEED}.prepared": "--files 280 --side 32 --rounds 1 --batches 1 --only preparing",
    f"{SPEED}.preparing": "--files 20 --side 32 --rounds 1",
    f"{SPEED}.rows": "--rounds 1 --steps 2 --rows 100 --model mlp",
    f"{SPEED}.short_runs": "--size 8 --runs 2 --steps 50 --block 1",
    f"{SPEED}.split": "--rounds 1",
    f"{SPEED}.start_up": "--rounds 1",
    f"{SPEED}.step": "--rounds 1 --steps 2 --models mlp",
    f"{SPEED}.study": "--models mlp --sides fp32 --seeds 1 --steps 10 --at-once 1 --out s.json",
    f"{SPEED}.together": "--rounds 1 --only points",
    f"{PAPERS}.audit": "--compositions 1 --rows 500",
    f"{PAPERS}.class_orders": "--repeats 1",
    f"{PAPERS}.effects": "--table",
    f"{PAPERS}.hypersphere": "--table",
    f"{PAPERS}.intervals": "--draws 2",
    f"{PAPERS}.own_tables_sets": "tables --packages none --data none",
    "tools.breaks": "--find --only 1",
    "tools.golden": "--list",
    "tools.make_methods": "",
    "tools.method_checklist": "",
    "tools.make_papers": "--check",
    "tools.make_pictures": "",
    "tools.make_results_picture": "",
    "tools.make_site": "--only-lay --not-run",
    "tools.ways": "",
}
"""The arguments of each program that needs nothing but the repository."""
NOT_ALONE = {
    f"{SPEED}.accelerator": "a CUDA device",
    f"{SPEED}.image_changes": "albumentations",
    f"{SPEED}.ray_engine": "the extra `ray`",
    f"{SPEED}.reference_way": "rows that `study` writes, which runs it",
    f"{SPEED}.report_page": "a browser",
    f"{SPEED}.text_changes": "reviews and a language model",
    f"{SPEED}.texts": "reviews",
    f"{PAPERS}.concurrent_shifts": "stores of two studies; its own test makes them",
    f"{PAPERS}.interval_coverage": "pools of networks",
    f"{PAPERS}.judge_pools": "pools of networks",
    f"{PAPERS}.label_is_color": "stores of two studies; its own test makes them",
    f"{PAPERS}.label_shifts": "pools of networks",
    f"{PAPERS}.originals": "arrays of MNIST, USPS and CIFAR-10",
    f"{PAPERS}.own_tables": "tables of other people",
    f"{PAPERS}.pools": "arrays of MNIST or CIFAR-10",
    f"{PAPERS}.text_ablations": "the store of a study",
    f"{PAPERS}.text_pools": "reviews",
    "tools.beside": "another commit's code; `carry` starts it",
    "tools.carry": "minutes for each stale record; its own test calls it",
    "tools.release_check": "an environment of its own; its own test makes it",
    "tools.kernel_safety": "minutes on each kind of processor; its own test calls it",
}
"""What the other programs need."""
MINUTES = 10
"""A program that takes longer at its smallest is not small."""
COPIED = ("benchmarks", "decisions", "docs", "examples", "src", "studies", "tests", "tools")


def is_started_alone(program: str) -> bool:
    """Whether a file is a program, and no module of one."""
    text = (ROOT / f"{program.replace('.', '/')}.py").read_text(encoding="utf-8")
    return 'if __name__ == "__main__":' in text


def test_every_program_is_run_or_said_to_need_something() -> None:
    started_alone = [program for program in PROGRAMS if is_started_alone(program)]
    assert len(started_alone) == 63 == len(SMALLEST) + len(NOT_ALONE)
    assert sorted([*SMALLEST, *NOT_ALONE]) == started_alone


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository, since some programs write into it."""
    copy = tmp_path_factory.mktemp("repository")
    for name in COPIED:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, copy)
    return copy


@pytest.mark.verify
@pytest.mark.parametrize("program", SMALLEST)
def test_the_program_runs_at_its_smallest(program: str, repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", program, *SMALLEST[program].split()],
        capture_output=True,
        text=True,
        check=False,
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository / "src"), "OMP_NUM_THREADS": "1"},
        timeout=60 * MINUTES,
    )
    missed = program == f"{PAPERS}.intervals" and "goal 0.93: MISSED" in done.stdout  # by 2 draws
    assert done.returncode == 0 or missed, f"{done.stdout[-1000:]}\n{done.stderr[-2000:]}"
