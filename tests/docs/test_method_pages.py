"""The methods' pages are what is written of their files and records now, and lead somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from tools.method_checklist import checklist

from crosswind.core.registry import listing
from crosswind.reports.methods import effects_of, find_method

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "methods"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "make_methods", ROOT / "tools" / "make_methods.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_pages_are_those_of_the_files_and_records(script: ModuleType) -> None:
    pages = script.pages()
    assert len(pages) >= 22 and {f"{known.name}.md" for known in listing("methods")} < set(pages)
    files = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    differ = sorted(name for name in {*pages, *files} if pages.get(name) != files.get(name))
    assert differ == [], checklist() or "run: python -m tools.make_methods"


@pytest.mark.slow
def test_links_lead_somewhere(script: ModuleType) -> None:
    links = [
        link for text in script.pages().values() for link in re.findall(r"\]\(([^)#\s]+)", text)
    ]
    assert len(links) >= 22 + 16
    dead = [link for link in links if "://" not in link and not (FOLDER / link).exists()]
    assert dead == [], checklist() or dead


@pytest.mark.slow
def test_formulas_stand_apart_and_signs_are_not_set(script: ModuleType) -> None:
    irm = script.pages()["irm.md"]
    assert (
        "```text\nmin over theta of 1/E sum_e [ R_e(1) + lambda (dR_e/dw at w = 1)^2 ]\n```" in irm
    )
    assert r"| \[0, inf) |" in irm and "```bibtex\n@article{arjovsky2019invariant" in irm


@pytest.mark.slow
def test_every_measured_claim_is_on_its_page(script: ModuleType) -> None:
    pages, counted = script.pages(), 0
    for name in (path.stem for path in FOLDER.iterdir() if path.stem != "README"):
        for claim in effects_of(find_method(name)):
            counted += 1
            interval = f"{claim['difference']:+.3f} [{claim['low']:+.3f}, {claim['high']:+.3f}]"
            assert f"| {interval} | {claim['n']} | {claim['verdict']} |" in pages[f"{name}.md"], (
                name,
                claim["text"],
            )
    assert counted >= 30
