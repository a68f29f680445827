"""Files: those that a user names are looked at before they are read, ours are written whole or not
at all.

A pipe or a terminal waits for ever, `/dev/zero` never ends, and a file of gigabytes fills the
memory before anybody has seen that it is not what it should be. What is refused is an `OSError`
whose `strerror` is half a sentence, as those of the system are.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import stat
from pathlib import Path

from crosswind.core.errors import DataError

ROOT_VARIABLE = "CROSSWIND_DATA"
"""The environment variable that names the folder of prepared data."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def root_folder(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder of prepared data: `root`, else what CROSSWIND_DATA names, else
    ~/.cache/crosswind/data; always absolute."""
    folder = root or os.environ.get(ROOT_VARIABLE) or Path("~/.cache/crosswind/data")
    try:
        if "\0" in str(folder):
            raise ValueError("its name holds a zero byte")
        return Path(os.path.abspath(Path(folder).expanduser()))
    except (RuntimeError, ValueError) as error:  # no home
        raise DataError(f"{folder} cannot be the folder of prepared data: {error}") from None


def check_file(path: Path) -> int:
    """The size in bytes of a plain file, a link followed to its end. Raises `OSError` for what is
    none."""
    state = os.stat(path)
    kind = stat.S_IFMT(state.st_mode)
    if kind != stat.S_IFREG:
        raise OSError(
            errno.EINVAL, f"it is {_KINDS.get(kind, 'of an unknown kind')}, not a file", str(path)
        )
    return state.st_size


def read_at_most(path: Path, limit: int) -> bytes:
    """The bytes of a plain file of at most `limit` bytes. Raises `OSError`, also for a larger one,
    of which no more is read."""
    large = check_file(path) > limit
    if not large:
        with path.open("rb") as file:
            data = file.read(limit + 1)  # it may grow, and files of /proc say that they are empty
        large = len(data) > limit
    if large:
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", str(path))
    return data


def library_path(path: Path) -> Path | io.BytesIO:
    """The path for a library that takes paths of UTF-8 alone: `path`, or the bytes of a file whose
    path is not."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return io.BytesIO(path.read_bytes())
    return path


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader, or the next start after a kill, sees the old bytes
    or the new, never a mixture.

    A link stays one, and the file at its end is written. What is no file, such as /dev/stdout or a
    pipe, is written to and stays what it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if _is_device(path):
        path.write_bytes(data)
        return
    target = Path(os.path.realpath(path))
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync(target.parent)


def permit_as_folder(path: Path) -> None:
    """Give a file of ours the permissions that its folder has, without the one to run it.

    safetensors writes for the owner alone, and SQLite for no group; where colleagues share a folder,
    each goes on from what the others wrote.
    """
    with contextlib.suppress(PermissionError):  # a drive that knows no permissions
        path.chmod(stat.S_IMODE(path.parent.stat().st_mode) & 0o666)


def _is_device(path: Path) -> bool:
    """Whether a path, or the end of a link, is there and is neither a file nor a folder."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except OSError:
        return False
    return kind not in (stat.S_IFREG, stat.S_IFDIR)


def sync(path: Path) -> None:
    """Force a file or folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = (
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs"),
    *("afs", "orangefs", "pvfs2", "panfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph"),
    *("fuse.beegfs", "fuse.rclone", "fuse.s3fs"),
)
"""File systems that several machines may have at once."""


def network_file_system(path: Path) -> str:
    """The kind of file system that a path lies on, such as `nfs4`, where that is a network's; else,
    and where the system does not say, empty. The path need not exist yet."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:  # not Linux
        return ""
    location = os.path.realpath(path)
    best, kind = "", ""
    for line in lines:
        fields, _, rest = line.partition(" - ")
        mount = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields.split()[4])
        is_above = mount == "/" or location == mount or location.startswith(f"{mount}/")
        if is_above and len(mount) >= len(best):  # of two mounts on one place the later is seen
            best = mount
            kind = rest.split()[0]
    return kind if kind in _NETWORK else ""
