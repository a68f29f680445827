import json
import os

import numpy as np
import pytest

from crosswind.core import files
from crosswind.core.errors import StoreError
from crosswind.storage import artifacts


@pytest.mark.parametrize(
    "key", ["", "abc", "../abcd", "ab/cd", "ABCD", "abcd\n", "a" * 129, ".partial"]
)
def test_a_key_that_could_name_another_folder_is_refused(key, tmp_path):
    with pytest.raises(StoreError):
        artifacts.artifact_folder(tmp_path, key)


def test_a_write_that_breaks_off_leaves_the_old_bytes(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "file"
    files.write_atomically(path, b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == ["file"]


def test_a_link_stays_one_and_a_pipe_is_written_to(tmp_path):
    """`report --page /dev/stdout` of an administrator put a file in the place of /dev/stdout."""
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    (tmp_path / "deep").mkdir()
    link.symlink_to("deep/file")
    for data in (b"old", b"new"):
        files.write_atomically(link, data)
        assert link.is_symlink() and (tmp_path / "deep" / "file").read_bytes() == data
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        files.write_atomically(pipe, b"page")
        assert os.read(reader, 9) == b"page" and pipe.is_fifo()
    finally:
        os.close(reader)
    assert sorted(os.listdir(tmp_path)) == ["deep", "link", "pipe"]


def test_publish_replaces_what_an_unrecorded_try_left(tmp_path):
    final = artifacts.artifact_folder(tmp_path, "abcdef")
    for text in ("first", "second"):
        staged = artifacts.staging_folder(tmp_path, "driver", "abcdef")
        staged.mkdir(parents=True)
        (staged / text).write_text(text)
        artifacts.publish(staged, final)
        assert os.listdir(final) == [text]
    assert os.listdir(artifacts.staging_area(tmp_path, "driver")) == []


def test_sweeping_takes_only_what_is_over(tmp_path):
    for driver in ("dead", "live"):
        artifacts.staging_folder(tmp_path, driver, "abcdef").mkdir(parents=True)
    for key in ("done1", "open1"):
        artifacts.checkpoint_folder(tmp_path, key).mkdir(parents=True)
    artifacts.sweep_staging(tmp_path, lambda: {"live"})
    artifacts.sweep_checkpoints(tmp_path, lambda keys: [key for key in keys if key == "done1"])
    assert os.listdir(tmp_path / "artifacts" / ".partial") == ["live"]
    assert os.listdir(tmp_path / "checkpoints") == ["open1"]
    artifacts.sweep_staging(tmp_path / "nowhere", set)


def test_plain_json_takes_numbers_of_numpy_and_keeps_nan():
    value = json.loads(
        artifacts.plain_json(
            {"a": np.float32(0.5), "b": np.int64(3), "c": float("nan"), "d": (1, 2)}
        )
    )
    assert (
        value["a"] == 0.5 and value["b"] == 3 and value["c"] != value["c"] and value["d"] == [1, 2]
    )
    with pytest.raises(TypeError, match="object is not a plain value"):
        artifacts.plain_json(object())
