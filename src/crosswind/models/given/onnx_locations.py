"""Where an ONNX file says that tensors lie outside it, read from its protocol buffers.

No library that we need reads them: ONNX Runtime does not tell, and the package `onnx` is large.
Only the few messages that can hold a tensor are walked
(https://github.com/onnx/onnx/blob/main/onnx/onnx.proto), all else is stepped over, so that a file
of gigabytes is not read.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path

from crosswind.core.files import check_file

_EXTERNAL_DATA = 13
"""The field of a tensor that says where it lies: pairs of a key and a value."""
_INNER: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {_EXTERNAL_DATA: "pair"},
}
"""Message -> number of a field -> the message in it, for those by which a tensor is reached."""
_DEEPEST = 100


def external_locations(path: Path) -> set[str]:
    """The files that the tensors of an ONNX file lie in, as it names them, relative to its folder;
    empty where none does.

    Empty too for what is no ONNX file, which is refused when it is run. Raises `OSError`.
    """
    if not check_file(path):
        return set()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        locations: set[str] = set()
        try:
            _walk(data, 0, len(data), "model", locations, 0)
        except (IndexError, ValueError):  # no protocol buffer
            return set()
    return locations


def _walk(
    data: mmap.mmap, start: int, end: int, message: str, locations: set[str], depth: int
) -> None:
    if depth > _DEEPEST:
        raise ValueError("nested deeper than a network is")
    inner = _INNER[message]
    for number, begin, stop in _fields(data, start, end):
        kind = inner.get(number)
        if kind == "pair":
            pair = {key: data[first:last] for key, first, last in _fields(data, begin, stop)}
            if pair.get(1) == b"location":
                locations.add(pair.get(2, b"").decode("utf-8"))
        elif kind is not None:
            _walk(data, begin, stop, kind, locations, depth + 1)


def _fields(data: mmap.mmap, offset: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Number, begin and end of every field of bytes in a message; numbers are stepped over. Raises
    `ValueError`, `IndexError`."""
    while offset < end:
        tag, offset = _number(data, offset)
        kind = tag & 7
        if kind == 0:
            _, offset = _number(data, offset)
        elif kind == 1:
            offset += 8
        elif kind == 5:
            offset += 4
        elif kind == 2:
            length, offset = _number(data, offset)
            if offset + length > end:
                raise ValueError("a field ends behind its message")
            yield tag >> 3, offset, offset + length
            offset += length
        else:
            raise ValueError("no kind of field")


def _number(data: mmap.mmap, offset: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and the place behind it."""
    value, shift = 0, 0
    while True:
        byte = data[offset]
        value |= (byte & 127) << shift
        offset += 1
        if byte < 128:
            return value, offset
        shift += 7
        if shift > 63:
            raise ValueError("no number of 64 bits")
