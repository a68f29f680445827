"""Pixels held once: the right bits, rendered once, within the bound, whoever is killed."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
import weakref
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.data.filling import SHAPE, dataset, digest_of, picture

from crosswind.core.errors import DataError, InputError
from crosswind.core.types import InputSpec
from crosswind.data import budget, resident
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.budget import bounded, memory_bytes, usable_memory
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import DerivedAttribute, derive, evaluation_inputs
from crosswind.data.resident import Region, ResidentRows

ROW = int(np.prod(SHAPE))
EXTRA = 64 << 10  # bytes beside the rows: the header and a byte for every row


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what data sets of other tests hold in this process."""
    monkeypatch.setattr(resident, "_private", weakref.WeakSet())


def rows_of(data: AttributedDataset, rows: np.ndarray, evaluation: bool = False) -> ResidentRows:
    resident = ResidentRows(data, rows, evaluation=evaluation)
    resident.bring()
    return resident


def test_rows_are_rendered_once_and_read_as_they_are() -> None:
    decodes: Counter[int] = Counter()
    data = dataset(lambda rows: decodes.update(rows.tolist()))
    chosen_rows = np.array([4999, 3, 3, 0, 1200, 17])
    resident = rows_of(data, chosen_rows)
    assert resident.held() and np.array_equal(resident.take(np.arange(6)), picture(chosen_rows))
    assert np.array_equal(resident.take(np.array([5, 0, 5])), picture(np.array([17, 4999, 17])))
    all_resident = rows_of(data, np.arange(2000))
    assert np.array_equal(all_resident.take(np.arange(2000)), picture(np.arange(2000)))
    assert resident._arena is all_resident._arena and np.array_equal(
        resident.take(np.arange(6)), picture(chosen_rows)
    )
    assert set(decodes.values()) == {1} and set(decodes) == {*range(2000), 4999}


def test_nothing_is_rendered_before_it_is_asked_for() -> None:
    decodes: Counter[int] = Counter()
    resident = ResidentRows(
        dataset(lambda rows: decodes.update(rows.tolist())), np.arange(100), evaluation=False
    )
    resident.bring(np.array([5, 6, 6]))
    assert decodes == {5: 1, 6: 1} and not resident.held() and resident.held(np.array([6, 5]))
    resident.bring()
    assert set(decodes.values()) == {1} and len(decodes) == 100 and resident.held()


def test_what_does_not_fit_is_rendered_at_each_reading() -> None:
    decodes: Counter[int] = Counter()
    data = dataset(lambda rows: decodes.update(rows.tolist()))
    with bounded(1000 * ROW):
        resident = rows_of(data, np.arange(1500))
        count = resident._held.sum()
        assert not resident.held() and 980 < count <= 1000 and sum(decodes.values()) == count
        mixed = np.array([0, 1499, 700, 1200, 1])
        assert np.array_equal(resident.take(mixed), picture(mixed))
        assert sum(decodes.values()) == count + (~resident._held[mixed]).sum()
        decodes.clear()
        again = rows_of(data, np.arange(1500))
        assert not decodes and np.array_equal(again._held, resident._held)
    # The bound is that of all data sets of the process together.
    small_dataset = dataset(n=4000)
    with bounded(1400 * ROW):
        assert 360 < rows_of(small_dataset, np.arange(1500))._held.sum() <= 400
    with bounded(0):
        none = rows_of(dataset(n=3000), np.arange(40))
        assert not none._held.any() and np.array_equal(
            none.take(np.arange(40)), picture(np.arange(40))
        )


def test_rows_that_lie_apart_keep_to_the_bound_in_whole_pages() -> None:
    table = AttributeTable((Attribute("one", ("only",)),), np.zeros((1, 100_000), dtype=np.uint8))
    dots = lambda rows: np.repeat(rows, 64).astype(np.uint8).reshape(-1, 8, 8, 1)  # noqa: E731
    data = AttributedDataset("dots", table, dots, InputSpec.image(8, 8, 1))
    resident = ResidentRows(data, np.arange(0, 100_000, 10), evaluation=False)
    with bounded(1 << 20):
        resident.bring()
    assert resident._arena is not None and 500 < resident._held.sum() < 5000
    assert resident._arena._region.used() <= (1 << 20) + 512 * 64 * 10
    assert np.array_equal(resident.take(np.arange(10_000)), dots(resident.rows))


def test_evaluation_images_of_derived_rows_are_held_with_their_noise() -> None:
    settings = (None, {"severity": 1}, {"severity": 5})
    data = derive(
        dataset(), DerivedAttribute("noise", ("clean", "some", "much"), "gaussian-noise", settings)
    )
    rows = np.arange(40, 400)
    resident = rows_of(data, rows, evaluation=True)
    assert np.array_equal(resident.take(np.arange(360)), evaluation_inputs(data, rows))
    base = rows_of(data, np.arange(40))
    assert (
        np.array_equal(base.take(np.arange(40)), picture(np.arange(40)))
        and base._arena is not resident._arena
    )
    # Without a derived attribute both are one.
    plain = dataset()
    assert (
        rows_of(plain, np.arange(9), evaluation=True)._arena is rows_of(plain, np.arange(9))._arena
    )


def test_a_forward_pass_in_half_precision_changes_no_held_image() -> None:
    import torch

    data = derive(
        dataset(),
        DerivedAttribute("grain", ("fine", "coarse"), "pixelate", (None, {"severity": 5})),
    )
    rows = np.arange(1, 64, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        inside = rows_of(data, rows, evaluation=True).take(np.arange(32))
    assert np.array_equal(inside, evaluation_inputs(data, rows))


def test_errors_are_those_of_the_data_set() -> None:
    def damaged(rows: np.ndarray) -> np.ndarray:
        if (rows == 77).any():
            raise DataError("row 77: 'a.png' is no whole image")
        return picture(rows)

    undamaged = dataset()
    data = AttributedDataset("damaged", undamaged.table, damaged, InputSpec.image(*SHAPE))
    with pytest.raises(DataError, match="row 77"):
        rows_of(data, np.arange(100))
    assert rows_of(data, np.arange(50)).held()  # nothing stays locked
    bare = AttributedDataset("bare", undamaged.table)
    with pytest.raises(DataError, match="no inputs"):
        rows_of(bare, np.arange(5)).take(np.arange(5))


def test_a_full_memory_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite

    def full(handle: int, data: bytes, place: int) -> int:
        if len(data) > 100_000:
            raise OSError(errno.ENOSPC, "no space left")
        return write(handle, data, place)

    monkeypatch.setattr(os, "pwrite", full)
    held = rows_of(dataset(), np.arange(600))
    assert not held.held() and np.array_equal(held.take(np.arange(600)), picture(np.arange(600)))
    monkeypatch.setattr(
        resident,
        "_anonymous_file",
        lambda: (_ for _ in ()).throw(OSError(errno.EMFILE, "too many")),
    )
    none = rows_of(dataset(), np.arange(6))
    assert none.memory is None and np.array_equal(none.take(np.arange(6)), picture(np.arange(6)))


def test_it_works_on_an_unlinked_file_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    resident = rows_of(dataset(), np.arange(600))
    assert resident.held() and np.array_equal(
        resident.take(np.arange(600)), picture(np.arange(600))
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_what_a_data_set_held_goes_with_it() -> None:
    gc.collect()
    before = descriptors()
    data = dataset()
    resident = rows_of(data, np.arange(600))
    assert len(descriptors()) > len(before)
    del data, resident
    gc.collect()
    assert descriptors() == before


# -- several processes -----------------------------------------------------------------------------


class Fillers:
    """Processes on one region."""

    def __init__(self, folder: Path, bound: int = 1 << 30) -> None:
        self.region, self.log, self.go = Region.create(bound), folder / "log", folder / "go"
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, rows: int, seconds: float = 0.0, falls: int = 0) -> None:
        words = [self.region.handle, self.log, rows, seconds, falls, self.go]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.data.filling", *map(str, words)],
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[self.region.handle],
        )
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        self.processes.append(process)

    def ends(self) -> list[tuple[int, list[str]]]:
        """Let them all go; exit status and words of each."""
        self.go.touch()
        out = [
            (process.communicate(timeout=600)[0].split(), process.returncode)
            for process in self.processes
        ]
        self.processes = []
        return [(status, words) for words, status in out]

    def rendered(self) -> Counter[int]:
        return Counter(int(line.split()[1]) for line in self.log.read_text().splitlines())


@pytest.mark.slow
def test_two_processes_render_each_row_once_and_share_the_work(tmp_path: Path) -> None:
    fillers = Fillers(tmp_path)
    for _ in range(2):
        fillers.start(5000, seconds=0.05)
    ends = fillers.ends()
    assert [(status, *words) for status, words in ends] == [
        (0, digest_of(picture(np.arange(5000))), "True")
    ] * 2
    assert fillers.rendered() == Counter(range(5000))
    assert len({line.split()[0] for line in fillers.log.read_text().splitlines()}) == 2
    assert 5000 * ROW < fillers.region.used() < 5000 * ROW + EXTRA
    fillers.region.close()


@pytest.mark.slow
@pytest.mark.parametrize("falls", [1, 2, 3, 6, 7])
def test_killed_at_any_write_it_leaves_a_sound_region(tmp_path: Path, falls: int) -> None:
    """Write 1 adds the data set, then pixels and marks of each of three chunks."""
    fillers = Fillers(tmp_path)
    fillers.start(1200, falls=falls)
    assert fillers.ends()[0][0] == -9
    fillers.start(1200)
    assert fillers.ends() == [(0, [digest_of(picture(np.arange(1200))), "True"])]
    assert sum(fillers.rendered().values()) <= 1200 + 512
    fillers.region.close()


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_renders_keeps_nobody_waiting(tmp_path: Path) -> None:
    fillers = Fillers(tmp_path)
    fillers.go.touch()
    fillers.start(400, seconds=60.0)
    while not fillers.log.exists():
        assert fillers.processes[0].poll() is None
    fillers.start(400)
    fillers.processes[0].kill()
    dead, living = fillers.ends()
    assert dead[0] == -9 and living == (0, [digest_of(picture(np.arange(400))), "True"])
    assert set(fillers.rendered().values()) == {2}
    fillers.region.close()


@pytest.mark.slow
def test_the_bound_holds_for_all_processes_together(tmp_path: Path) -> None:
    fillers = Fillers(tmp_path, bound=2000 * ROW)
    for _ in range(2):
        fillers.start(3000)
    assert fillers.ends() == [(0, [digest_of(picture(np.arange(3000))), "False"])] * 2
    assert 1990 * ROW < fillers.region.used() < 2000 * ROW + EXTRA
    fillers.region.close()


def test_arenas_of_one_region_do_not_touch() -> None:
    region = Region.create(1 << 30)
    shapes = [(3, 5, 1), (32, 32, 3), (1, 1, 1)]
    arenas = [region.arena(bytes([place]) * 32, 3000, shape) for place, shape in enumerate(shapes)]
    for turn in range(3):
        for arena_index, arena in enumerate(arenas):
            assert arena is not None
            arena.fill(
                np.arange(turn, 3000, 3),
                lambda rows, place=arena_index: numbered(rows, place, shapes[place]),
            )
    attached = Region.attach(os.dup(region.handle))
    for arena_index, shape in enumerate(shapes):
        arena = attached.arena(bytes([arena_index]) * 32, 3000, shape)
        assert arena is not None and arena.held.all()
        assert np.array_equal(arena.rows, numbered(np.arange(3000), arena_index, shape))


def test_more_data_sets_than_there_is_place_for() -> None:
    region = Region.create(1 << 30)
    arenas = [region.arena(number.to_bytes(32, "big"), 10, (2, 2, 1)) for number in range(256)]
    assert arenas[254] is not None and arenas[255] is None


# -- how much --------------------------------------------------------------------------------------


def test_amounts_of_memory() -> None:
    byte_counts = {
        "8GB": 8 << 30,
        "500M": 500 << 20,
        "1.5 GiB": 3 << 29,
        "64k": 65536,
        "0": 0,
        4 << 20: 4 << 20,
        "2t": 2 << 40,
        None: None,
    }
    assert {text: memory_bytes(text, "memory") for text in byte_counts} == byte_counts
    for text in ("", "much", "-1GB", "8 apples", "GB", "1e9", True, "1" * 40, "8GB 2", [8]):
        with pytest.raises(
            InputError, match=r"--memory: .* is no amount of memory such as 500MB or 8GB"
        ):
            memory_bytes(text, "--memory")


@pytest.mark.parametrize("amount", [8, "8", "16.5", "64000"])
def test_a_small_amount_of_memory_without_a_unit_is_refused(amount: str | int) -> None:
    with pytest.raises(InputError, match=rf"--memory: .* has no unit; write {amount}GB"):
        memory_bytes(amount, "--memory")


def test_limits_of_control_groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, text in {"": "max", "a": "3000000", "a/b": "9000000", "a/b/c": "max"}.items():
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "memory.max").write_text(text + "\n")
    assert sorted(budget._limits(tmp_path, "/a/b/c", "memory.max")) == [3000000, 9000000]
    assert budget._limits(tmp_path, "/nowhere/here", "memory.max") == []
    assert 0 < usable_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert budget.budget() == usable_memory() // 2
    with bounded(5), bounded(None):
        assert budget.budget() == 5


def numbered(rows: np.ndarray, place: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(
        (rows % 200 + place).astype(np.uint8)[:, None, None, None], (len(rows), *shape)
    )


def descriptors() -> list[str]:
    """What this process has open, by name."""
    descriptors = []
    for entry in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd") else []:
        try:
            descriptors.append(os.readlink(f"/proc/self/fd/{entry}"))
        except OSError:
            continue  # the folder that was listed
    return sorted(name for name in descriptors if "crosswind" in name)
