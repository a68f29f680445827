"""Does a rebuilt Crosswind give the same figures, to the last digit: small studies and direct
calls, compared with a record.

    python -m tools.golden [--only PART ...]      compute the parts (default: all) and compare them with the record
    python -m tools.golden --record               write them into the record instead
    python -m tools.golden --accept 'PART/SUBJECT*' --why TEXT
                                                       list the differences of these subjects in
                                                       golden/changes.yaml
    python -m tools.golden --list                 print the names of the parts

The parts are in golden_parts.py, the record is golden/record.json. Floats are kept exactly; of
arrays and pictures a SHA-256. Sentences (warnings, reasons) may be worded otherwise: their number
counts, and how many changed is said. What the record does not have is new and said too, and can be
recorded alone; `later` has of which files of methods such a part is. Exit status 1 where a figure
differs that golden/changes.yaml does not list with this old and new value.
CROSSWIND_GOLDEN_DATA names a folder with mnist.npz, pacs64.npz and cifar10_test.npz; without it one
part is skipped. To look at another checkout, set PYTHONPATH to its `src`. About five minutes on one
core. A machine whose vectors are wider than those of the record's machine does without them, since
last digits depend on them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from tools.code_hash import code_hash
from tools.golden_parts import PARTS, Skipped

ROOM = Path(__file__).resolve().parent / "golden"
RECORD = ROOM / "record.json"
CHANGES = ROOM / "changes.yaml"
GONE = "(gone)"
SHOWN = 8


class Difference(NamedTuple):
    """A figure that is not what the record says; `subject` is PART/SUBJECT."""

    subject: str
    figure: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.subject} | {self.figure or 'value'}: {self.old!r} -> {self.new!r}"


def compute(name: str) -> dict[str, Any]:
    """The figures of a part, as JSON gives them back. Raises `Skipped`, and whatever the part
    raises."""
    with tempfile.TemporaryDirectory() as folder:
        figures = PARTS[name](Path(folder).resolve())
        text = json.dumps(figures, default=_plain).replace(str(Path(folder).resolve()), "FOLDER")
    found: dict[str, Any] = json.loads(text)
    return found


def _plain(value: Any) -> Any:
    return (
        value.item()
        if hasattr(value, "item")
        else dict(value)
        if isinstance(value, Mapping)
        else str(value)
    )


def differences(
    name: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> tuple[list[Difference], int, int]:
    """What differs of a part; how many sentences are worded otherwise; how many figures the record
    does not have."""
    found: list[Difference] = []
    reworded = added = 0
    for subject in {**old, **new}:
        before, after = dict(_leaves(old.get(subject, {}))), dict(_leaves(new.get(subject, {})))
        for figure in {**before, **after}:
            if _is_prose(figure):
                reworded += before.get(figure) != after.get(figure)
            elif figure not in before:
                added += 1
            elif repr(before[figure]) != repr(
                after.get(figure, GONE)
            ):  # NaN is equal to itself, and 1 is not 1.0
                found.append(
                    Difference(f"{name}/{subject}", figure, before[figure], after.get(figure, GONE))
                )
    return found, reworded, added


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and any(isinstance(item, list | Mapping) for item in value):
        for place, item in enumerate(value):
            yield from _leaves(item, f"{name}.{place}" if name else str(place))
    else:
        yield name, value


def _is_prose(figure: str) -> bool:
    return "words" in figure.split(".")


def listed(changes: Mapping[str, Any], item: Difference) -> bool:
    """Whether the changes have this difference, with its old and new figure, or that the subject is
    gone with all its figures."""
    figures = changes.get(item.subject, {}).get("figures", {})
    return (
        item.new == GONE
        if figures == GONE
        else bool(figures.get(item.figure) == [item.old, item.new])
    )


def machine() -> dict[str, str]:
    """What the last digits may depend on."""
    import numpy
    import torch

    names = [
        line.partition(":")[2].strip()
        for line in _lines(Path("/proc/cpuinfo"))
        if line.startswith("model name")
    ]
    return {
        "cpu": names[0] if names else platform.machine(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
    }


def missing_limits(capability: str) -> dict[str, str]:
    """What must be in the environment so that torch, oneDNN, MKL and NumPy use the vector
    instructions of a machine with this capability and no wider ones; empty where they do.

    Sums of floats are grouped by the width of the vectors, so their last digits are those of a kind
    of processor. A machine with wider vectors can do without them.
    """
    import torch
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    if capability != "AVX2" or torch.backends.cpu.get_cpu_capability() not in ("AVX512", "AVX2"):
        return {}
    dispatched = [name for name in __cpu_dispatch__ if name == "X86_V4" or "AVX512" in name]
    wider = [name for name in dispatched if __cpu_features__[name]]
    limits = {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    }
    missing = {key: value for key, value in limits.items() if os.environ.get(key) != value}
    return missing | ({"NPY_DISABLE_CPU_FEATURES": " ".join(wider)} if wider else {})


def use_instructions_of_record(program: str) -> None:
    """Start this process anew, as `program`, under `missing_limits` of the record's machine; does
    nothing where there are none."""
    limits = missing_limits(read_record()["machine"].get("capability", ""))
    if limits:
        os.environ.update(limits)
        os.execv(sys.executable, [sys.executable, "-m", program, *sys.argv[1:]])


def sources() -> dict[str, str]:
    """Path -> hash of the code of the package's files: of which code the record is, for carry.py."""
    import crosswind

    top = Path(crosswind.__file__).parent
    return {str(path.relative_to(top)): code_hash(path) for path in sorted(top.rglob("*.py"))}


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def read_record() -> dict[str, Any]:
    """The record; empty where there is none."""
    return (
        json.loads(RECORD.read_text(encoding="utf-8"))
        if RECORD.exists()
        else {"machine": {}, "files": {}, "parts": {}}
    )


def write_record(record: Mapping[str, Any]) -> None:
    """Write the record, a line a subject, so that a change of it can be read."""
    heads = {"machine": {}, "files": {}, "later": {}} | {
        key: value for key, value in record.items() if key != "parts"
    }
    lines = [
        "{"
        + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in heads.items())
        + ",",
        '"parts": {',
    ]
    for name in sorted(record["parts"]):
        subjects = [
            f" {json.dumps(subject)}: {json.dumps(value)}"
            for subject, value in record["parts"][name].items()
        ]
        lines.append(f"{json.dumps(name)}: {{\n" + ",\n".join(subjects) + "\n},")
    RECORD.write_text("\n".join(lines).rstrip(",") + "\n}}\n", encoding="utf-8")


def read_changes() -> dict[str, Any]:
    """PART/SUBJECT -> {reason, figures: {figure: [old, new]}}, or `figures: (gone)` for a subject
    that is there no more."""
    return (yaml.safe_load(CHANGES.read_text(encoding="utf-8")) if CHANGES.exists() else None) or {}


def compare(name: str, old: Mapping[str, Any]) -> tuple[list[Difference], str]:
    """Compute a part: its differences from the record, and a sentence about it. A part that raises
    is a difference."""
    began = time.perf_counter()
    try:
        found, reworded, added = differences(name, old, compute(name))
    except Skipped as reason:
        return [], f"skipped: {reason}"
    except Exception as error:
        traceback.print_exc()
        return [
            Difference(f"{name}/", "", "figures", f"{type(error).__name__}: {error}")
        ], "it could not be computed"
    told = (
        f"{len(found)} differences"
        if found
        else "equal"
        if old or not added
        else "not in the record yet"
    )
    more = [f"{reworded} sentences worded otherwise"] * bool(reworded) + [
        f"{added} new figures"
    ] * bool(added)
    return found, ", ".join([told, *more, f"{time.perf_counter() - began:.0f} s"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "--only", nargs="+", metavar="PART", help="these parts; * stands for any letters"
    )
    parser.add_argument(
        "--check", action="store_true", help="compare with the record (the default)"
    )
    parser.add_argument(
        "--record", action="store_true", help="write the record instead of comparing"
    )
    parser.add_argument(
        "--accept",
        metavar="PART/SUBJECT",
        help="list what differs of these subjects as a change; * as above",
    )
    parser.add_argument("--why", help="the reason of the change")
    parser.add_argument("--list", action="store_true", help="print the names of the parts and stop")
    options = parser.parse_args()
    names = [
        name
        for name in PARTS
        if not options.only or any(fnmatchcase(name, word) for word in options.only)
    ]
    if options.accept:
        if not options.why:
            parser.error("--accept needs --why")
        names = [name for name in names if fnmatchcase(name, options.accept.partition("/")[0])]
    if not names:
        parser.error(f"there is no such part; there are {', '.join(PARTS)}")
    if options.list:
        print("\n".join(names))
        return 0
    os.environ["OMP_NUM_THREADS"] = "1"
    import crosswind

    print(f"crosswind of {Path(crosswind.__file__).parent}", flush=True)
    record = read_record()
    if options.record:
        return _record(record, names)
    here = machine()
    for key, value in record["machine"].items():
        if here[key] != value:
            print(
                f"{key} differs: the record was made with {value}, this is {here[key]}; last digits"
                " may differ for that alone"
            )
    changes = read_changes()
    open_differences = 0
    for name in names:
        found, told = compare(name, record["parts"].get(name, {}))
        if options.accept:
            taken = [item for item in found if fnmatchcase(item.subject, options.accept)]
            for subject in dict.fromkeys(item.subject for item in taken):
                own = [item for item in taken if item.subject == subject]
                figures: Any = {item.figure: [item.old, item.new] for item in own}
                changes[subject] = {
                    "reason": options.why,
                    "figures": GONE if all(item.new == GONE for item in own) else figures,
                }
            CHANGES.write_text(
                yaml.safe_dump(changes, sort_keys=True, allow_unicode=True, width=120),
                encoding="utf-8",
            )
        left = [item for item in found if not listed(changes, item)]
        print(
            f"{name}: {told}"
            + (f", {len(found) - len(left)} listed as changes" if len(left) < len(found) else ""),
            flush=True,
        )
        for item in left[:SHOWN]:
            print(f"    {item}")
        if len(left) > SHOWN:
            print(f"    and {len(left) - SHOWN} more")
        open_differences += len(left)
    print(f"{open_differences} differences that are not listed as changes")
    return 1 if open_differences else 0


def _record(record: dict[str, Any], names: list[str]) -> int:
    now = sources()
    later = record["parts"].keys() - names and record.get("files", now) != now
    if later and record["parts"].keys() & names:
        raise SystemExit(
            "the record is of other sources than these: record all parts, or those that it has not"
        )
    if later:  # parts of what is new; the others stay as they are
        changed = {
            path: sha
            for path, sha in now.items()
            if path.startswith("methods/") and record["files"].get(path) != sha
        }
        record["later"] = {**record.get("later", {}), **dict.fromkeys(names, changed)}
    else:
        record |= {"machine": machine(), "files": now, "later": {}}
    for name in names:
        began = time.perf_counter()
        try:
            figures = compute(name)
        except Skipped as reason:
            print(f"{name}: skipped: {reason}", flush=True)
            continue
        record["parts"] = read_record()["parts"] | {
            name: figures
        }  # another process may have recorded other parts meanwhile
        write_record(record)
        print(f"{name}: {len(figures)} subjects, {time.perf_counter() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    use_instructions_of_record("tools.golden")
    sys.exit(main())
