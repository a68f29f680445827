"""What goes with a method of the package beside its file, and is not there yet: one message, with the
command for what is made by one and the decision for what is not.

    python -m tools.method_checklist [NAME ...]     default: every method

Exit status 1 where something lacks. The tests that would be red for it say the same.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence

from benchmarks.papers.effects_table import ROOT, STUDIES, records
from benchmarks.speed.method_demand import PLAIN

from crosswind.core.registry import listing

__all__ = ["checklist", "methods_of_the_package"]

REFERENCE = "erm"
"""The method that others are compared with: it has no effect of its own."""


def methods_of_the_package() -> list[str]:
    """The names of the methods that the package has."""
    return [facts.name for facts in listing("methods") if facts.module.startswith("crosswind.")]


def checklist(names: Iterable[str] | None = None) -> str:
    """All that lacks of the methods `names`, a line each under a line for the method; empty where
    nothing does."""
    guide = (ROOT / "docs/guides/choosing-a-method.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([\w-]+)` \|", guide, flags=re.MULTILINE))
    costs = json.loads((ROOT / "benchmarks/results/method-cost.json").read_text(encoding="utf-8"))
    effects = records()
    lines = []
    for name in methods_of_the_package() if names is None else names:
        study = STUDIES / f"{name}.yaml"
        lacks = {
            f"decide: {study.relative_to(ROOT)}, a study of what its paper claims": study.exists()
            or name == REFERENCE,
            f"then: python -m benchmarks.papers.effects {name} --confirm": name in effects
            or name == REFERENCE,
            "decide: in benchmarks/speed/method_demand.py the arithmetic that a step needs": name
            in PLAIN,
            f"then: python -m benchmarks.speed.method_cost {name}": name in costs["results"],
            "decide: its row in docs/guides/choosing-a-method.md: needs, helps where, cannot": name
            in rows,
            "last: python -m tools.make_methods": (ROOT / f"docs/methods/{name}.md").exists(),
        }
        missing = [line for line, is_there in lacks.items() if not is_there]
        if missing:
            lines += [f"method {name!r} of the package lacks:", *(f"  {line}" for line in missing)]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the message; 1 where there is one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: every method")
    options = parser.parse_args(arguments)
    message = checklist(options.names or None)
    print(message or "nothing lacks")
    return int(bool(message))


if __name__ == "__main__":
    sys.exit(main())
