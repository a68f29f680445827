"""Build what is released, look into it, install it into an empty environment and use it there.

    python -m tools.release_check                                   with the locked versions
    python -m tools.release_check --borrow                          with the libraries of this environment
    python -m tools.release_check --versions newest --python 3.13   or lowest: as pyproject.toml allows

Everything is written to a temporary folder outside the repository. The wheel and the sdist are
checked by `twine check --strict` and `check-wheel-contents`. Then the wheel alone is installed into a
new environment, and each entry of `SMOKE` is run there in an empty folder: its exit status is 0 and
what it prints holds the words that stand beside it. `--borrow` needs no network and takes a
minute; without it the libraries come from the package index or the cache of uv. The exit status is 1
when anything fails.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("locked", "lowest", "newest")
PACKAGE = "crosswind_my_loss"

CHECK_PLUG_IN = (
    "from crosswind.testing import check_method, method_checks;"
    f" from {PACKAGE}.my_loss import MyLoss;"
    " check_method(MyLoss); print(len(method_checks(MyLoss)), 'checks hold')"
)
SMOKE: dict[str, tuple[tuple[str, ...], str]] = {
    "version": (("crosswind", "--version"), "crosswind "),
    "list": (("crosswind", "list"), "methods"),
    "doctor": (("crosswind", "doctor"), "device of `auto`"),
    "demo": (("crosswind", "run", "demo", "--scale", "tiny", "--out", "demo"), "7 runs"),
    "init": (("crosswind", "init", "fruit.csv", "--label", "ripeness"), "wrote fruit.yaml"),
    "study of the table": (
        ("crosswind", "run", "fruit.yaml", "--out", "fruit", "--set", "split_seeds=1")
        + ("--set", "training.steps=20"),
        "The page is fruit/report.html",
    ),
    "estimate": (
        ("crosswind", "estimate", "--predictions", "new.csv", "--source", "known.csv")
        + ("--label", "truth"),
        "90%",
    ),
    "plug-in, listed": (("crosswind", "list", "methods"), "my-loss"),
    "plug-in, checked": (("python", "-c", CHECK_PLUG_IN), "checks hold"),
}
"""What is tried -> the command, and words that it prints. The plug-in is `crosswind new`'s."""


class ReleaseError(Exception):
    """A step of the release failed; the message is the command with what it printed."""


def output(
    words: Sequence[str | Path], folder: Path, variables: Mapping[str, str] | None = None
) -> str:
    """What a command prints that is run in `folder`; raises ReleaseError where its status is not 0."""
    done = subprocess.run(
        list(words),
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        command = " ".join(map(str, words))
        raise ReleaseError(f"{command}: status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def tool(name: str) -> list[str]:
    """The command of a development tool of this environment."""
    return [sys.executable, "-m", name]


def build(project: Path, folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist of a project, built into `folder` by this environment's backend."""
    offline = ("--offline", "--no-build-isolation", "--python", sys.executable)
    what = ("build", "--quiet", "--wheel", "--sdist", *offline, "--out-dir", folder)
    output([*tool("uv"), *what, project], ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def check_archives(wheel: Path, sdist: Path) -> None:
    """Raise ReleaseError unless an index takes both, and the wheel holds one package that is whole."""
    output([*tool("twine"), "check", "--strict", wheel, sdist], wheel.parent)
    output([*tool("check_wheel_contents"), "--toplevel", "crosswind", wheel], wheel.parent)


def new_environment(folder: Path, python: str) -> Path:
    """The interpreter of a new environment without packages."""
    output([*tool("uv"), "venv", "--quiet", "--python", python, folder], ROOT)
    return folder / "bin" / "python"


def install_borrowing(wheel: Path, python: Path) -> None:
    """Install the wheel alone, and let its environment see the libraries of this one.

    The folder of this environment's packages comes last on the path and its `.pth` files are not
    read, so that an editable Crosswind in it is not seen.
    """
    # Compiled once: each of the commands would compile what it imports, where Python writes nothing.
    install = ("pip", "install", "--quiet", "--offline", "--no-deps", "--compile-bytecode")
    install += ("--python", python)
    output([*tool("uv"), *install, wheel], ROOT)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = Path(output([python, "-c", where], ROOT).strip())
    (own / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")


def install(wheel: Path, python: Path, versions: str, release: str) -> None:
    """Install the wheel with its requirements, resolved for a release of Python such as 3.13."""
    words: list[str | Path] = [*tool("uv"), "pip", "install", "--quiet", "--python", python, wheel]
    if versions == "locked":
        words += ["--constraint", ROOT / "requirements.lock"]
    elif versions == "lowest":
        lowest = wheel.parent / "lowest.txt"
        resolve = (
            "pip",
            "compile",
            "--quiet",
            "--resolution",
            "lowest-direct",
            ROOT / "pyproject.toml",
        )
        output([*tool("uv"), *resolve, "--python-version", release, "--output-file", lowest], ROOT)
        words += ["--constraint", lowest]
    output(words, ROOT)


def write_inputs(folder: Path) -> None:
    """Write the table that `init` reads, and the scores that `estimate` reads."""
    draw = random.Random(0)
    fruits = ["weight,firmness,season,ripeness"]
    for row in range(400):
        ripe = row % 2
        season = "summer" if draw.random() < 0.2 + 0.6 * ripe else "winter"
        weight, firmness = draw.gauss(60 + 9 * ripe, 6), draw.gauss(5 + ripe, 1)
        fruits.append(f"{weight:.1f},{firmness:.1f},{season},{'ripe' if ripe else 'unripe'}")
    scores = [round(draw.random(), 3) for _ in range(300)]
    known = ["a,b,truth"]
    for score in scores[:150]:
        known.append(f"{score},{round(1 - score, 3)},{'a' if draw.random() < score else 'b'}")
    new = ["a,b", *(f"{score},{round(1 - score, 3)}" for score in scores[150:])]
    for name, lines in (("fruit.csv", fruits), ("known.csv", known), ("new.csv", new)):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def smoke(python: Path, folder: Path) -> dict[str, float]:
    """Run every entry of `SMOKE`, and give the seconds that each took."""
    folder.mkdir()
    write_inputs(folder)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    variables["PATH"] = f"{python.parent}{os.pathsep}{variables['PATH']}"
    plug_in = folder / "plug-in"
    plug_in.mkdir()
    output([python.parent / "crosswind", "new", "method", "my-loss"], plug_in, variables)
    wheel, _ = build(plug_in, folder / "plug-in-dist")
    without = ("pip", "install", "--quiet", "--offline", "--no-deps", "--python", python)
    output([*tool("uv"), *without, wheel], folder)
    seconds: dict[str, float] = {}
    for name, (words, expected) in SMOKE.items():
        began = time.monotonic()
        printed = output([python.parent / words[0], *words[1:]], folder, variables)
        seconds[name] = time.monotonic() - began
        if expected not in printed:
            raise ReleaseError(f"{' '.join(words)}: {expected!r} is not in\n{printed[-4000:]}")
    where = "import crosswind; print(crosswind.__file__)"
    used = Path(output([python, "-c", where], folder, variables).strip())
    if not used.resolve().is_relative_to(python.parents[1].resolve()):
        raise ReleaseError(f"what was tried is not the wheel but {used}")
    return seconds


def check_release(folder: Path, versions: str | None, python: str) -> None:
    """Build, look and try in an empty folder; without `versions` libraries are borrowed."""
    wheel, sdist = build(ROOT, folder / "dist")
    sizes = ", ".join(f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in (wheel, sdist))
    print(f"built: {sizes}", flush=True)
    check_archives(wheel, sdist)
    print("twine check --strict, check-wheel-contents: nothing to complain of", flush=True)
    interpreter = new_environment(folder / "environment", python)
    about = "import platform; print(platform.python_version())"
    release = output([interpreter, "-c", about], folder).strip()
    if versions is None:
        install_borrowing(wheel, interpreter)
    else:
        install(wheel, interpreter, versions, release.rpartition(".")[0])
    print(f"installed: Python {release}, {versions or 'borrowed'} versions", flush=True)
    for name, seconds in smoke(interpreter, folder / "work").items():
        print(f"  {name}: {seconds:.1f} s")
    print(output([interpreter.parent / "crosswind", "doctor"], folder).splitlines()[1])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 where a step failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--versions", choices=VERSIONS, default="locked")
    parser.add_argument(
        "--python", default=sys.executable, help="a release, such as 3.13, or a path"
    )
    parser.add_argument("--borrow", action="store_true", help="the libraries of this environment")
    options = parser.parse_args(arguments)
    if options.borrow and (options.python, options.versions) != (sys.executable, "locked"):
        parser.error(
            "--borrow takes the libraries of this environment: leave --python and --versions out"
        )
    with tempfile.TemporaryDirectory(prefix="crosswind-release-") as folder:
        try:
            check_release(
                Path(folder), None if options.borrow else options.versions, options.python
            )
        except ReleaseError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
