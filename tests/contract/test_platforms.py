"""What other systems lack: calls of POSIX stand where they are known to stand, those of Linux alone
are asked for before they are used, and Windows is refused in one sentence."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "crosswind"

POSIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
POSIX_OS = """
    chown chroot ctermid eventfd fchmod fchown fdatasync fork forkpty fstatvfs getegid geteuid getgid
    getgroups getloadavg getpgid getpgrp getpriority getresuid getsid getuid killpg lchown lockf
    memfd_create mkfifo mknod nice openpty pidfd_open posix_fadvise posix_fallocate posix_spawn pread
    preadv pwrite pwritev register_at_fork sched_getaffinity sched_setaffinity sendfile setgid setpgid
    setpriority setsid setuid statvfs sync sysconf tcgetpgrp ttyname uname wait wait3 wait4 waitid
    WNOHANG O_ASYNC O_CLOEXEC O_DIRECT O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_TMPFILE ST_RDONLY
"""
POSIX_SIGNALS = """
    SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2
    SIGWINCH alarm pause pthread_kill pthread_sigmask setitimer sigpending sigtimedwait sigwait
    sigwaitinfo
"""
POSIX_CALLS = {
    "os": set(POSIX_OS.split()),
    "signal": set(POSIX_SIGNALS.split()),
    "errno": {"EDQUOT"},
    "socket": {"AF_UNIX", "socketpair"},
    "time": {"pthread_getcpuclockid", "tzset"},
}
"""Module -> names that Windows lacks."""
LINUX_CALLS = {"memfd_create", "pidfd_open", "posix_fadvise", "prctl", "sched_getaffinity"}
"""Calls that macOS lacks too."""

USES = {
    "core/processor.py": "cores that a process may use",
    "data/budget.py": "memory of the machine",
    "data/contents.py": "reads of several threads at places of one file",
    "data/decoded_files.py": "reads and writes of several processes at places of one file",
    "data/prepared/claiming.py": "a lock that ends with its process",
    "data/resident.py": "pixels that processes share, under locks that end with them",
    "execution/engines/pool.py": "workers that are killed with what they started",
    "execution/engines/ray_node.py": "a folder of one user on a node of a cluster",
    "execution/engines/worker.py": "a worker that ends with its driver",
    "execution/failure_causes.py": "what killed a worker",
    "execution/scheduler.py": "a terminal that is closed",
    "models/language/chat_cache.py": "a lock that ends with its process",
    "models/language/feature_cache.py": "a lock that ends with its process",
    "storage/database.py": "whether a disk is read-only",
    "training/memory.py": "the most memory that a run held",
}
"""The modules that use what Windows lacks -> for what. A new one is a decision: it must be mended
before Windows can be supported."""


def parsed() -> dict[str, ast.Module]:
    """The modules of the package by their paths."""
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def posix_names(tree: ast.Module) -> set[str]:
    """The modules and names of POSIX that a module uses."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names} & POSIX_MODULES
        elif isinstance(node, ast.ImportFrom) and node.module:
            lacked = POSIX_CALLS.get(node.module, set())
            names |= {node.module} & POSIX_MODULES | {alias.name for alias in node.names} & lacked
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in POSIX_CALLS.get(node.value.id, ()):
                names.add(f"{node.value.id}.{node.attr}")
    return names


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The functions and methods that are in no other function."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.FunctionDef):
                yield node
            else:
                waiting.append(node)


@pytest.mark.slow
def test_what_windows_lacks_is_used_where_it_is_known_to_be() -> None:
    modules = parsed()
    assert len(modules) > 450
    used = {path: names for path, tree in modules.items() if (names := posix_names(tree))}
    assert set(used) == set(USES), used
    guide = (ROOT / "docs" / "guides" / "install.md").read_text(encoding="utf-8")
    assert f"{len(USES)} of its modules use what Windows lacks" in guide


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import fcntl", {"fcntl"}),
        ("from resource import getrusage", {"resource"}),
        ("import os\nos.killpg(os.getpid(), 9)", {"os.killpg"}),
        ("from signal import SIGKILL, SIGTERM", {"SIGKILL"}),
        ("import os, signal\nos.kill(1, signal.SIGTERM)", set()),
    ],
)
def test_what_windows_lacks_is_recognised(text: str, names: set[str]) -> None:
    assert posix_names(ast.parse(text)) == names


@pytest.mark.slow
def test_what_linux_alone_has_is_asked_for_before_it_is_used() -> None:
    """By `hasattr`, the platform, or an `OSError` that is caught; `/proc` likewise."""
    asked = 0
    for path, tree in parsed().items():
        for function in functions(tree):
            text = ast.unparse(function)
            calls = {
                node.attr
                for node in ast.walk(function)
                if isinstance(node, ast.Attribute) and node.attr in LINUX_CALLS
            }
            docstring = ast.get_docstring(function, clean=False)
            files = {
                node.value
                for node in ast.walk(function)
                if isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node.value.startswith(("/proc/", "/sys/"))
                and node.value != docstring
            }
            for call in calls:
                assert f"hasattr(os, '{call}')" in text or "sys.platform == 'linux'" in text, path
            caught = re.search(r"except .*(OSError|FileNotFoundError)|suppress\(.*OSError", text)
            assert not files or caught, (path, function.name)
            asked += bool(calls or files)
    assert asked >= 9


REFUSAL = (
    "Crosswind needs Linux or macOS; on Windows install it inside WSL 2, the Windows Subsystem for"
    " Linux"
)


def on_windows(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A program whose interpreter says that it is one of Windows."""
    (folder / "sitecustomize.py").write_text(
        "import sys; sys.platform = 'win32'\n", encoding="utf-8"
    )
    path = os.pathsep.join([str(folder), str(ROOT / "src")])
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.parametrize("how", ["-m", "crosswind", "crosswind.exe", "crosswind-script.py"])
def test_the_command_ends_in_one_sentence_on_windows(how: str, tmp_path: Path) -> None:
    words = ["-m", "crosswind", "list"]
    if how != "-m":
        script = tmp_path / how  # as an installer writes it
        script.write_text("from crosswind.cli.main import main\nmain()\n", encoding="utf-8")
        words = [str(script), "list"]
    refused = on_windows(words, tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"error: {REFUSAL}\n"


def test_an_import_is_refused_in_one_sentence_on_windows(tmp_path: Path) -> None:
    refused = on_windows(["-c", "import crosswind"], tmp_path)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1] == f"ImportError: {REFUSAL}"
