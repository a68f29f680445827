"""Completion in real shells, at a terminal: what the Tab key writes."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crosswind.cli.completion import FORMATS, ROOMS
from crosswind.cli.list import room_of
from crosswind.cli.report import _SUFFIX

pytestmark = pytest.mark.slow
ZSH = "autoload -Uz compinit && compinit -u -D"
TYPED = {
    "crosswind rep": "report",
    "crosswind show meth": "method",
    "crosswind show method groupd": "groupdro",
    "crosswind list text-": "text-transforms",
    "crosswind run dem": "demo",
    "crosswind report --form": "--format",
    "crosswind report --format la": "latex",
    "crosswind run own-st": "own-study.yaml",  # files, where nothing else begins so
}


class Terminal:
    """A shell at a terminal of its own."""

    def __init__(self, command: list[str], folder: Path) -> None:
        bin_folder = Path(sys.executable).parent
        variables = {
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "PS1": "",
            "TERM": "dumb",
            "HOME": str(folder),
        }
        self.front, back = pty.openpty()
        environment = {**os.environ, **variables}
        self.shell = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=back,
            stdout=back,
            stderr=back,
            close_fds=True,
        )
        os.close(back)

    def write(self, text: str) -> None:
        os.write(self.front, text.encode())

    def wait_for(self, text: str, seconds: float = 30) -> str:
        shown, end = "", time.monotonic() + seconds
        while text not in shown.replace("\r", "") and time.monotonic() < end:
            if select.select([self.front], [], [], 0.2)[0]:
                shown += os.read(self.front, 4096).decode(errors="replace")
        assert text in shown.replace("\r", ""), shown
        return shown

    def close(self) -> None:
        self.shell.kill()
        self.shell.wait()
        os.close(self.front)


@pytest.mark.parametrize("name", ["bash", "zsh"])
def test_the_tab_key_completes(name: str, tmp_path: Path) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name} on the PATH")
    (tmp_path / "own-study.yaml").touch()
    command = ["bash", "--norc", "--noprofile", "-i"] if name == "bash" else ["zsh", "-f", "-i"]
    terminal = Terminal(command, tmp_path)
    try:
        terminal.write("bind 'set enable-bracketed-paste off'\n" if name == "bash" else f"{ZSH}\n")
        # The script is taken as a user's profile takes it.
        terminal.write('eval "$(crosswind --show-completion)" && echo "read""y"\n')
        terminal.wait_for("ready")
        for typed, word in TYPED.items():
            terminal.write(f"echo {typed.partition(' ')[0]}\n")
            terminal.write(f"{typed}\t")
            untyped = word[len(typed.split(" ")[-1]) :]
            terminal.wait_for(typed + untyped)
            terminal.write("\x15")  # the line is not run
    finally:
        terminal.close()


def test_what_is_completed_is_what_is_taken() -> None:
    assert tuple(_SUFFIX) == FORMATS
    assert len(ROOMS) == 9 and [room_of(room) for room in ROOMS] == list(ROOMS)
