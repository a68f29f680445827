"""Bytes that only unpickling could read, known by their beginning. Nothing here, or anywhere in Crosswind, unpickles them."""

from __future__ import annotations

import re

__all__ = ["HEAD", "PICKLED_SUFFIXES", "looks_pickled"]

HEAD = 64
"""How many bytes from the beginning of a file `looks_pickled` is to be given."""

PICKLED_SUFFIXES = (".pkl", ".pickle", ".p", ".joblib", ".dill")

# Protocol 2 and later: the mark, the protocol, then an opcode; 4 and later nearly always open with a frame of 8 bytes of length.
_NEWER = re.compile(rb"\x80[\x02-\x05](?:\x95.{6}\x00\x00|[]})(}NKMJGXUTSBCVIFLcq\x85-\x8f\x94])", re.DOTALL)
# Protocol 1 opens with an empty container that is remembered at once, or a mark with text in it.
_BINARY = re.compile(rb"(?:[]})]q.|\(\]q.|\(\}q.)[(KMJGXUTNBCc]", re.DOTALL)
# Protocol 0 is lines of text: a container or a global by module and name. What follows keeps lists of words from looking alike.
_TEXT = re.compile(rb"(?:\([dl]p?\d*\n[()a-zA-Z]|\(?c[\w.]+\n[\w.]+\n(?:p\d+\n|q.|[()\[\]}tR]))", re.DOTALL)


def looks_pickled(head: bytes) -> bool:
    """Whether a file that begins with these bytes (`HEAD` are enough) is a pickle, of any protocol, whatever its name says."""
    return any(pattern.match(head) for pattern in (_NEWER, _BINARY, _TEXT))
