"""What the documentation shows works: links lead somewhere, and every block of Python, YAML and
commands is executed."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import yaml
from tools.method_checklist import checklist

from crosswind.cli.main import _status
from crosswind.core import registry
from crosswind.evaluation.compare import t_quantile
from crosswind.evaluation.metrics import METRICS
from crosswind.studies.plan import make_plan
from crosswind.studies.reading import parse
from crosswind.studies.spec import Study, study_from

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("[gpr]*/*.md")),
]
RUN = ("python", "yaml", "console")
# A test that finds nothing proves nothing: raise these as the documentation grows.
AT_LEAST = {"python": 10, "yaml": 5, "console": 6, "links": 12}

# What a fragment of a study file is put into.
BASE: dict[str, Any] = {
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink", "size"],
            "roles": {"test": 2},
        }
    },
    "shifts": {
        "none": [],
        "SC": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2},
    },
    "sizes": {"equal": {"total": 100}},
    "models": ["mlp"],
    "training": {"steps": 4, "validate_every": 2},
    "seeds": 1,
}


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    blocks_read, inside = [], None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```") and inside is None:
            inside = (number, line[3:].strip(), [])
        elif line.startswith("```") and inside is not None:
            blocks_read.append(Block(page, inside[0], inside[1], "\n".join(inside[2]) + "\n"))
            inside = None
        elif inside is not None:
            inside[2].append(line)
    assert inside is None, (
        f"{page.name}: the block at line {inside[0] if inside else 0} does not end"
    )
    return blocks_read


def test_there_is_as_much_to_check_as_there_was() -> None:
    languages = [block.language for page in PAGES for block in blocks(page)]
    assert len(PAGES) >= 7
    assert set(languages) <= {*RUN, "toml"}, "a block of a language that is not checked"
    for language in RUN:
        assert languages.count(language) >= AT_LEAST[language], (
            language,
            languages.count(language),
        )
    assert sum(len(links(page)) for page in PAGES) >= AT_LEAST["links"]


def links(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.findall(r"\]\(([^)\s]+)\)", text)


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in anchors(target), f"{page.name} links to {link}"


def test_pictures_are_small_described_and_show_the_algebra() -> None:
    for path in (ROOT / "docs" / "pictures").iterdir():
        assert path.stat().st_size < 100_000, path.name
    shown = re.findall(
        r"!\[([^\]]*)\]\(\.\./pictures/(\w+)\.png\)",
        (ROOT / "docs" / "guides" / "shifts.md").read_text(encoding="utf-8"),
    )
    spec = importlib.util.spec_from_file_location(
        "make_pictures", ROOT / "tools" / "make_pictures.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (
        {name for _, name in shown}
        == set(module.PICTURES)
        == {path.stem for path in (ROOT / "docs" / "pictures").iterdir()}
    )
    words_of = {name: words for words, name in shown}
    for name, panels in module.PICTURES.items():
        for _, shift, attribute in panels:
            table = 100 * module.panel(shift, attribute)
            assert table.sum() == pytest.approx(100)
            for share in {f"{share:.1f}".removesuffix(".0") for share in table.flat}:
                assert re.search(rf"\b{re.escape(share)}(\.0)?\b", words_of[name]), (
                    f"the words for {name}.png do not say {share}"
                )


def test_every_method_can_be_chosen_and_is_told_what_it_needs() -> None:
    text = (ROOT / "docs" / "guides" / "choosing-a-method.md").read_text(encoding="utf-8")
    rows = {
        row[0]: row[1:]
        for row in re.findall(r"^\| `([\w-]+)` \| (.+?) \| (.+?) \| (.+?) \|$", text, flags=re.M)
    }
    method_facts = {
        known_method.name: known_method
        for known_method in registry.listing("methods")
        if known_method.module.startswith("crosswind.")
    }
    assert list(rows)[0] == "erm" and set(rows) == set(method_facts), checklist()
    for name, (needed_words, _, cannot) in rows.items():
        needs = method_facts[name].needs
        assert needs is not None
        assert ("environment" in needed_words) == (
            needs.environments or needs.sampler == "per-environment"
        ), name
        assert ("at least two" in needed_words) == needs.environments, name
        assert ("group" in needed_words) == needs.groups, name
        assert ("unlabelled test inputs" in needed_words) == bool(needs.adapts), name
        assert all(f"`{knob}`" in cannot for knob in needs.switches), name
        assert (f"no {needs.norm} norm" in cannot) == bool(needs.norm), name


def test_every_source_is_named_where_data_are_explained() -> None:
    text = (ROOT / "docs" / "guides" / "data.md").read_text(encoding="utf-8")
    source_names = [
        known_source.name
        for known_source in registry.listing("sources")
        if known_source.module.startswith("crosswind.")
    ]
    assert len(source_names) >= 19
    assert [name for name in source_names if f"`{name}`" not in text] == []


def test_how_many_seeds_show_a_difference() -> None:
    """Half the width of a 95 % interval of n paired differences is t(n - 1) / sqrt(n) of their
    standard deviation."""
    text = (ROOT / "docs" / "guides" / "choosing-a-method.md").read_text(encoding="utf-8")
    assert (
        "five seeds show one of about 1.2 standard deviations of the differences, two seeds need"
        " nine" in text
    )
    assert t_quantile(4) / 5**0.5 == pytest.approx(1.2, abs=0.05) and t_quantile(
        1
    ) / 2**0.5 == pytest.approx(9, abs=0.1)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory that holds what the pages speak of: a table and a folder of pictures."""
    spec = importlib.util.spec_from_file_location("own_data", ROOT / "examples" / "own_data.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.draw_pictures(tmp_path)
    write_moles(tmp_path / "moles.csv")
    write_moles(tmp_path / "clinic.csv")
    (tmp_path / "birds").symlink_to("pictures")
    monkeypatch.chdir(tmp_path)
    before = dict(registry._LIVE)
    with patch.dict(METRICS):  # a page declares one, which the scores of later tests would hold
        yield tmp_path
    for room, name in set(registry._LIVE) - set(before):
        if registry._LIVE[room, name].__module__.startswith("page_"):
            registry.forget(room, name)


def write_moles(table: Path) -> None:
    """A table in which nine of ten benign moles lie beside a ruler and one of ten others does."""
    draw = np.random.default_rng(0)
    lines = ["diagnosis,ruler,width,red"]
    for row in range(400):
        benign = row % 2
        ruler = "yes" if draw.random() < 0.1 + 0.8 * benign else "no"
        width, red = 4 - benign + draw.normal(), 2 * (ruler == "yes") + draw.normal()
        lines.append(f"{['melanoma', 'benign'][benign]},{ruler},{width:.2f},{red:.2f}")
    table.write_text("\n".join(lines), encoding="utf-8")


# Seconds each: they train whole studies and draw their pages.
LONG = ("README.md", "getting-started.md", "pretrained.md")
SHOWING = [page for page in PAGES if any(block.language in RUN for block in blocks(page))]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] * (page.name in LONG), id=page.name)
        for page in SHOWING
    ],
)
@pytest.mark.usefixtures("in_this_process")
def test_what_a_page_shows_works(
    page: Path, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if page.name == "README.md":  # there the photographers are few: an attribute, not a unit
        table = (place / "birds.csv").read_text(encoding="utf-8")
        (place / "birds.csv").write_text(
            re.sub(r",p(\d+)$", lambda found: f",p{int(found[1]) % 2}", table, flags=re.M)
        )
    name = f"page_{page.stem.replace('-', '_')}"
    module = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    for block in blocks(page):
        where = f"{page.name}, line {block.line}"
        if block.language == "python":
            # As it stands, but for the length of training.
            text = re.sub(
                r"\bsteps=\d+",
                "steps=4",
                re.sub(r"\bvalidate_every=\d+", "validate_every=2", block.text),
            )
            exec(
                compile("\n" * block.line + text, str(page), "exec", dont_inherit=True),
                module.__dict__,
            )
        elif block.language == "yaml":
            study = planned(parse(block.text, where), where)
            if study.name != "study":
                (place / f"{study.name}.yaml").write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            for line in block.text.splitlines():
                if line.startswith("$ "):
                    command(shlex.split(line[2:], comments=True), where)
    if page.name == "extending.md":
        planned(
            {"shifts": {"tail": {"type": "long-tail", "attribute": "ink", "factor": 0.5}}},
            page.name,
        )
        data = {"stripes": {"source": "stripes", "label": "direction", "attributes": ["light"]}}
        shifts = {"SC": {"type": "spurious-correlation", "attribute": "light"}}
        planned({"data": data, "shifts": shifts, "sizes": {"equal": "equal"}}, page.name)


def planned(values: dict[str, Any], where: str) -> Study:
    """The study of a block, planned; a fragment is put where it belongs in a study first."""
    if not {"data", "shifts"} <= set(values):
        if set(values) == {"derive"}:
            derived = values["derive"] if isinstance(values["derive"], list) else [values["derive"]]
            names = [each["name"] for each in derived]
            data_values = {"attributes": ["ink", *names], **values}
            values = {"data": {"digits": {**BASE["data"]["digits"], **data_values}}}
        if set(values) == {"clusters"}:
            np.save(
                values["clusters"]["features"],
                np.random.default_rng(0).random((1797, 60), dtype=np.float32),
            )
            values = {
                "data": {
                    "digits": {**BASE["data"]["digits"], "attributes": ["ink", "cluster"], **values}
                }
            }
        values = {**BASE, **values}
    study = study_from(values, where=where)
    assert make_plan(study, Path.cwd()).runs, where
    return study


def command(words: list[str], where: str) -> None:
    """Check one command: `crosswind` is executed, at a size of seconds; of the others what they
    name must be there."""
    if words[0] == "make":
        targets = re.findall(
            r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M
        )
        assert words[1] in targets, where
    elif words[0] == "source":
        assert words[1] == ".venv/bin/activate", where
    elif words[0] == "python":
        assert (ROOT / words[1]).is_file(), where
    else:
        assert words[0] == "crosswind", f"{where}: {words[0]} is not checked"
        arguments = words[1:]
        if arguments[0] == "run":
            small = arguments[1].endswith(".yaml")
            arguments += (
                [
                    "--set",
                    "training.steps=4",
                    "--set",
                    "training.validate_every=2",
                    "--set",
                    "seeds=1",
                    "--set",
                    "split_seeds=1",
                ]
                if small
                else []
            )
            arguments += [] if small or "--scale" in arguments else ["--scale", "tiny"]
        assert _status(arguments) == 0, f"{where}: {' '.join(words)}"


def test_the_file_for_kubernetes_is_one_cluster_whose_pods_share_a_volume() -> None:
    page = (ROOT / "docs" / "guides" / "cluster.md").read_text(encoding="utf-8")
    lines = page[page.index("    # raycluster.yaml") :].split("\n\n")[0].splitlines()
    cluster = yaml.safe_load("\n".join(line.removeprefix("    ") for line in lines))
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    assert len(groups) == 2 and groups[1]["replicas"] == 4
    for group in groups:
        pod = group["template"]["spec"]
        (container,), (volume,) = pod["containers"], pod["volumes"]
        assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/studies"}]
        assert "rayStartParams" in group and "claimName" in volume["persistentVolumeClaim"]
