"""Features of images on disk: no image passes a frozen network twice, whichever prompt, shift, job
or process asks.

They lie in the folder that CROSSWIND_FEATURES names, else ~/.cache/crosswind/features, at most
CROSSWIND_FEATURES_GIB (default 20) of them: those that were not read for longest go first. An image
is known by the hash of its pixels, so a picture that two shifts, or two data sets, show alike is
one. One process computes at a time for each network; the others wait and then find its work.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cache_limits import limit_bytes, remove_oldest
from crosswind.core.errors import DataError, one_line
from crosswind.core.files import write_atomically
from crosswind.data.dataset import AttributedDataset
from crosswind.data.derive import evaluation_inputs
from crosswind.models.given.outside import tell

__all__ = ["FeatureCache", "feature_cache", "features_folder", "image_keys"]

FOLDER, MOST = "CROSSWIND_FEATURES", "CROSSWIND_FEATURES_GIB"
PORTION = 1024
"""Images that are read, and whose features are written, at once."""

Compute = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


class FeatureCache:
    """The features float32 [d] of one network. `key`: a hash of all that decides them but the
    image."""

    def __init__(self, root: Path, key: str) -> None:
        self.root = root
        self.folder = root / key
        self._at: dict[bytes, tuple[NDArray[Any], int]] = {}
        self._files: set[str] = set()

    def of_rows(
        self, dataset: AttributedDataset, rows: NDArray[np.int64], compute: Compute
    ) -> NDArray[np.float32]:
        """The features [n, d] of (virtual) rows of a data set, as in every evaluation.

        Rows are read where their pixels are not known yet in this process, or their features
        nowhere.
        """
        hashed: dict[int, bytes] = dataset.cache.setdefault("image keys", {})
        feature_parts = []
        for start in range(0, len(rows), PORTION):
            row_chunk = rows[start : start + PORTION]
            images = None
            if not all(row in hashed for row in row_chunk.tolist()):
                images = evaluation_inputs(dataset, row_chunk)
                hashed.update(zip(row_chunk.tolist(), image_keys(images), strict=True))
            keys = [hashed[row] for row in row_chunk.tolist()]
            feature_parts.append(
                self._found(keys, self._reader(dataset, row_chunk, images), compute)
            )
            tell(start + len(row_chunk), len(rows))
        return np.concatenate(feature_parts)

    def of_images(self, images: NDArray[np.uint8], compute: Compute) -> NDArray[np.float32]:
        """The features [n, d] of images uint8 [n, h, w, c]."""
        chunks = [images[start : start + PORTION] for start in range(0, len(images), PORTION)]
        return np.concatenate(
            [self._found(image_keys(chunk), chunk.__getitem__, compute) for chunk in chunks]
        )

    @staticmethod
    def _reader(
        dataset: AttributedDataset, rows: NDArray[np.int64], images: NDArray[Any] | None
    ) -> Callable[[NDArray[np.int64]], NDArray[Any]]:
        if images is not None:
            return images.__getitem__
        return lambda positions: evaluation_inputs(dataset, rows[positions])

    def _found(
        self,
        keys: Sequence[bytes],
        read: Callable[[NDArray[np.int64]], NDArray[Any]],
        compute: Compute,
    ) -> NDArray[np.float32]:
        try:
            if not all(key in self._at for key in keys):
                self.folder.mkdir(parents=True, exist_ok=True)
                with (self.folder / "lock").open("w") as handle:
                    fcntl.flock(handle, fcntl.LOCK_EX)
                    self._look()
                    missing = {}
                    for position, key in reversed(list(enumerate(keys))):
                        if key not in self._at:
                            missing[key] = position
                    if missing:
                        self._write(list(missing), compute(read(np.array(list(missing.values())))))
        except OSError as error:
            problem = f"features cannot be kept in {self.folder} ({error.strerror or error})"
            raise DataError(f"{problem}; name a folder that can be written in {FOLDER}") from None
        return np.stack(
            [array["feature"][position] for array, position in (self._at[key] for key in keys)]
        )

    def _look(self) -> None:
        """Take in the files that are new."""
        for path in sorted(self.folder.glob("*.npy")):
            if path.name in self._files:
                continue
            try:
                self._take(path)
                os.utime(path)
            except (OSError, ValueError, EOFError):  # damaged, or removed meanwhile: computed again
                path.unlink(missing_ok=True)

    def _take(self, path: Path) -> None:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        self._files.add(path.name)
        for position, key in enumerate(
            np.ascontiguousarray(array["key"]).view("V16").ravel().tolist()
        ):
            self._at[key] = array, position

    def _write(self, keys: list[bytes], features: NDArray[np.float32]) -> None:
        array = np.empty(
            len(keys), dtype=[("key", "u1", (16,)), ("feature", "<f4", features.shape[1:])]
        )
        array["key"] = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, 16)
        array["feature"] = features
        data = io.BytesIO()
        np.save(data, array, allow_pickle=False)
        path = self.folder / f"{hashlib.blake2b(b''.join(keys), digest_size=16).hexdigest()}.npy"
        write_atomically(path, data.getvalue())
        self._take(path)
        stored_paths = (stored for stored in self.root.glob("*/*.npy") if stored != path)
        remove_oldest(stored_paths, limit_bytes(MOST, "20") - len(data.getvalue()))


def feature_cache(key: str) -> FeatureCache:
    """The cache of a network, one in a process."""
    return _cache(features_folder(), key)


def features_folder() -> Path:
    """The folder of all features, absolute; it need not exist. Raises `DataError` where there can
    be none."""
    folder = os.environ.get(FOLDER) or "~/.cache/crosswind/features"
    try:
        return Path(os.path.abspath(Path(folder).expanduser()))
    except (RuntimeError, ValueError) as error:  # no home, or a zero byte
        problem = (
            f"{folder!r} cannot be the folder of features ({one_line(str(error), 200)}); set"
            f" {FOLDER}"
        )
        raise DataError(problem) from None


@lru_cache(maxsize=8)
def _cache(root: Path, key: str) -> FeatureCache:
    return FeatureCache(root, key)


def image_keys(images: NDArray[np.uint8]) -> list[bytes]:
    """16 bytes an image: a hash of its pixels and shape."""
    shape = repr(images.shape[1:]).encode()
    return [
        hashlib.blake2b(image.tobytes(), digest_size=16, salt=b"", key=shape[:64]).digest()
        for image in images
    ]
