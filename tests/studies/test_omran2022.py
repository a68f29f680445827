"""The studies of Omran and Schiele 2022: each is planned at every scale on files written here, and
runs at its smallest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file
from tests.data.cifar_files import binary_files, pictures, tar_gz
from tests.data.picture_files import encoded, pacs_files, written

from crosswind.cli.main import _status
from crosswind.data.imagenet_classes import synsets
from crosswind.data.prepared import prepare
from crosswind.data.sources.cifar import Cifar10
from crosswind.data.sources.image_trees import Pacs
from crosswind.reports.gather import gather
from crosswind.shifts.base import parse_shift
from crosswind.storage.store import Store
from crosswind.studies.build import build_dataset
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.reading import find_study
from crosswind.studies.spec import load_study

NAMES = (
    "corruptions",
    "rotations",
    "learning-rate",
    "class-splits",
    "alignment",
    "aligned-subsets",
    "renditions",
)
SETS = {
    "corruptions": ("pictures", "any"),
    "rotations": ("pictures", "at-90"),
    "alignment": ("pictures", "at-90"),
}


def test_the_head_of_class_splits_says_how_many_classes_its_superclasses_have() -> None:
    name, path = find_study("omran2022/class-splits")
    text, order = path.read_text(encoding="utf-8"), list(synsets())
    stretches = yaml.safe_load(text)["shifts"]["0.5 all"]["superclasses"].values()
    ends = [stretch.split("..") for superclass in stretches for stretch in superclass]
    n_classes = sum(order.index(last) - order.index(first) + 1 for first, last in ends)
    assert f"{n_classes} classes" in text, name


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CIFAR-10 and PACS, prepared, and a folder of ImageNet with the synsets that the studies
    name."""
    folder = tmp_path_factory.mktemp("omran")
    save_file(
        {"weight": np.ones(3)}, str(folder / "given.safetensors")
    )  # whether it fits the network is seen when that is built
    (folder / "files").mkdir()
    tar_gz(
        folder / "files" / "cifar-10-binary.tar.gz",
        binary_files([pictures(40, i) for i in range(6)]),
        "cifar-10-batches-bin",
    )
    for size in (16, 32):
        prepare(
            Cifar10(root=str(folder), size=size),
            originals=str(folder / "files"),
            accept_totals=True,
        )
    files = {name: data for name, data in pacs_files(8).items() if not name.endswith(".txt")}
    for size in (16, 32):
        prepare(
            Pacs(root=str(folder), size=size, lists=False),
            originals=str(written(folder / "pacs", files)),
            accept_totals=True,
        )
    synsets = sorted(
        set(
            re.findall(
                r"n\d{8}", find_study("omran2022/class-splits")[1].read_text(encoding="utf-8")
            )
        )
    )
    assert len(synsets) >= 310
    picture = encoded((90, 60, 30), "x.jpg")
    names = [
        f"{part_name}/{synset}/{i}.JPEG"
        for synset in synsets
        for part_name, n in (("train", 3), ("val", 1))
        for i in range(n)
    ]
    file_bytes = {
        name: picture + name.encode() for name in names
    }  # after its end, so that no two files hold the same
    written(
        folder / "imagenet",
        file_bytes
        | {"LOC_synset_mapping.txt": "\n".join(f"{name} it" for name in synsets).encode()},
    )
    return folder


def planned(name: str, scale: str, root: Path, *more: str) -> Plan:
    settings = list(more)
    for data in yaml.safe_load(find_study(f"omran2022/{name}")[1].read_text(encoding="utf-8"))[
        "data"
    ]:
        if scale == "paper" or data.startswith("classes-"):
            settings += (
                [f"data.{data}.options.path={root / 'imagenet'}"] if scale == "paper" else []
            )
        else:
            settings.append(f"data.{data}.options.root={root}")
    return make_plan(load_study(f"omran2022/{name}", scale, settings))


SMALL = {  # training rows that the pictures written here can give
    "corruptions": ["sizes.all.pictures.total=100", "sets.validation.draw.total=10"],
    "rotations": [
        "sizes.all.pictures.total=100",
        *(f"sets.{name}.draw.total=10" for name in ("validation", "noise-unseen", "turned-unseen")),
    ],
    "learning-rate": [
        "sizes.all.pictures.total=100",
        *(f"sets.{name}.draw.total=5" for name in ("validation", "seen", "unseen")),
    ],
    "class-splits": [
        "sets.validation.draw.total=10",
        *(f"sizes.all.pictures.{share}.total=100" for share in ("0", "1", "0.5 all", "0.5 none")),
    ],
    "alignment": [
        *(
            "sizes.all.pictures.total=100",
            "sets.validation.draw.total=10",
            "sets.at-90.draw=all",
            "models.cnn.weights=null",
        ),
    ],
    "aligned-subsets": [
        "sizes.all.pictures.total=100",
        "sets.validation.draw.total=10",
        "models.cnn.weights=null",
    ],
    "renditions": [],
}


@pytest.mark.parametrize(
    ("name", "scale", "runs", "more"),
    [
        ("corruptions", "small", 20, []),
        ("rotations", "small", 20, []),
        ("learning-rate", "start", 1, []),
        ("learning-rate", "small", 45, ["models.resnet18.weights={root}/given.safetensors"]),
        ("learning-rate", "start-lite", 1, ["models.lite.weights={root}/given.safetensors"]),
        ("learning-rate", "lite", 18, ["models.lite.weights={root}/given.safetensors"]),
        ("alignment", "small", 90, []),
        ("aligned-subsets", "small", 55, []),
        ("renditions", "small", 10, []),
    ],
)
def test_small_scale_is_planned(
    root: Path, name: str, scale: str, runs: int, more: list[str]
) -> None:
    tests = [
        "data.pictures.roles.test=2",
        *(f"data.{other_set}.roles.test=2" for other_set in SETS.get(name, ())[1:]),
    ]
    plan = planned(
        name,
        scale,
        root,
        *SMALL[name],
        *(setting.format(root=root) for setting in more),
        *(tests if name != "renditions" else []),
    )
    assert len(plan.runs) == runs


def test_the_rows_of_table_3_align_what_they_name(root: Path) -> None:
    """Nothing, all four, each alone and each three, on classes of which every environment shows
    another quarter."""
    plan = planned("aligned-subsets", "paper", root)
    letters = {"N": "noise", "B": "blur", "W": "weather", "D": "digital"}
    aligned = {
        label: entry.get("aligned")
        for label, entry in plan.study.methods.items()
        if "+" in label or label in letters
    }
    assert len(aligned) == 9 and {len(names) for names in aligned.values()} == {1, 3, 4}
    assert all(
        names == [letters[letter] for letter in label.split("+")]
        for label, names in aligned.items()
    )
    (draw,) = plan.draws
    quarters = [
        {label for label, shares in draw.environments.items() if shares.get(name)}
        for name in letters.values()
    ]
    assert [len(quarter) for quarter in quarters] == [25] * 4 and len(set().union(*quarters)) == 100


def test_the_paper_scale_deals_the_classes_as_published(root: Path) -> None:
    """Quarters of the classes; superclasses whole or not at all; shares of which the smaller lie in
    the larger."""
    plan = planned("class-splits", "paper", root)
    assert len(plan.runs) == 2 * (7 + 3 + 3), "each fine-tuned, and as it was before"
    tables = {(draw.source, draw.shift): draw.environments for draw in plan.draws}
    classes_seen = {
        key: {label for label, shares in table.items() if shares.get("noise")}
        for key, table in tables.items()
    }
    n = len(tables["pictures", "0"])
    assert [
        len(classes_seen["pictures", share]) / n for share in ("0", "0.1", "0.25", "0.5", "1")
    ] == pytest.approx([0, 0.1, 0.25, 0.5, 1], abs=2 / n)
    assert (
        classes_seen["pictures", "0.1"]
        < classes_seen["pictures", "0.25"]
        < classes_seen["pictures", "0.5"]
    )
    dogs = {label for label in tables["pictures", "0"] if "n02085620" <= label <= "n02113978"}
    assert (
        len(dogs) > 20
        and dogs <= classes_seen["pictures", "0.5 all"]
        and not dogs & classes_seen["pictures", "0.5 none"]
    )
    assert (len(tables["classes-150", "0.5"]), len(classes_seen["classes-150", "0.5"])) == (150, 75)
    assert (len(tables["classes-200", "0.5"]), len(classes_seen["classes-200", "0.5"])) == (
        200,
        100,
    )
    # A picture of an affected class has noise with probability 1/2, and every class is seen as
    # often.
    for label, shares in tables["pictures", "0.25"].items():
        noise = 0.5 / n if label in classes_seen["pictures", "0.25"] else 0.0
        assert sum(shares.values()) == pytest.approx(1 / n) and shares["noise"] == pytest.approx(
            noise
        )


@pytest.mark.slow
def test_the_paper_scale_of_table_1_samples_environments_as_published(root: Path) -> None:
    plan = planned("corruptions", "paper", root)
    assert len(plan.runs) == 4 * 3
    for draw in plan.draws:
        share: dict[str, float] = {}
        for shares in draw.environments.values():
            for name, value in shares.items():
                share[name] = share.get(name, 0) + value
        other_names = [name for name in share if name != "clean"]
        assert len(other_names) == {"none": 0, "N": 1, "N+B": 2, "N+B+W+D": 4}[draw.shift]
        assert share["clean"] == pytest.approx(0.75 if other_names else 1)
        assert [share[name] for name in other_names] == pytest.approx(
            [0.25 / max(len(other_names), 1)] * len(other_names)
        )
    assert len(planned("rotations", "paper", root).runs) == 2 * (1 + 3) * 3
    assert len(planned("learning-rate", "paper", root).runs) == 1 + 3 * 7


def test_the_sets_of_seen_and_unseen_noise_are_those_of_the_shift(root: Path) -> None:
    plan = planned("corruptions", "tiny", root)
    study = plan.study
    data = build_dataset(
        next(job.spec["data"]["pictures"] for job in plan.jobs if job.kind == "fit")
    )
    from crosswind.shifts.split.index import cell_index

    cells = cell_index(data, "class", ["environment"]).cells
    noise = cells.axes[1].code_of("noise")
    shown = parse_shift(study.shifts["N"]).normal_form(cells).weights[:, noise] > 0
    seen_weights, unseen = (
        parse_shift(study.sets[f"noise-{side}"].law).normal_form(cells).weights > 0
        for side in ("seen", "unseen")
    )
    assert (
        (seen_weights[:, noise] == shown).all()
        and (unseen[:, noise] == ~shown).all()
        and 0 < shown.sum() < len(shown)
    )
    assert not np.delete(seen_weights, noise, 1).any() and not np.delete(unseen, noise, 1).any()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("in_this_process")
def test_the_tiny_study_runs(
    root: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options: list[Any] = ["--scale", "tiny", "--workers", "1", "--out", str(tmp_path / "out")]
    for data in SETS.get(name, ("pictures",)):
        options += ["--set", f"data.{data}.options.root={root}"]
    assert _status(["run", f"omran2022/{name}", *options]) == 0, capsys.readouterr().err
    with Store.open(tmp_path / "out") as store:
        record = gather(store, f"omran2022/{name}")
    assert record.behind.left_out == []
    assert any(answers.apart is not None for answers in record.behind.answers)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (
            "shifts.N.shares.noise=0.01",
            (
                "shifts.N.shares.noise: leaves 'noise' empty: 0.01 of 10 classes is less than half"
                " a class"
            ),
        ),
        ("shifts.N.classes.noise=[]", "shifts.N.classes.noise: names no value of 'class'"),
        (
            "shifts.N.classes={clean: all, noise: [cat], blur: [cat]}",
            "puts 'cat' in 'noise' and in 'blur'; say overlapping: true",
        ),
        (
            "data.pictures.derive.values.noise.severity=6",
            r"data.pictures.derive.values.noise.severity: must be .*\[1, 5\], not 6",
        ),
        (
            "data.pictures.derive.values.noise.severity=[1, 6]",
            r"data.pictures.derive.values.noise.severity: must be .*not 6",
        ),
        (
            "shifts.N.classes={first: all, clean: [cat]}",
            "shifts.N.classes.clean: names the environment 'clean' twice",
        ),
        (
            "data.pictures.derive.values.noise={transform: randaugment, magnitude: [9, 31]}",
            "values.noise.magnitude: must be below bins, which is 31, not 31",
        ),
        (
            "data.pictures.derive.values={clean: null}",
            "data.pictures.attributes: the derived attribute .* has one value, 'clean'",
        ),
        ("sampler={environment: 1.5}", r"sampler.environment: must be a number in \[0, 1\]"),
        ("shifts.N=[]", "sampler .*: environment needs a systematic shift, a single one"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(
    root: Path, tmp_path: Path, setting: str, words: str, capsys: Any
) -> None:
    options = [
        word
        for data in ("pictures", "any")
        for word in ("--set", f"data.{data}.options.root={root}")
    ]
    out = tmp_path / "out"
    assert (
        _status(
            [
                "run",
                "omran2022/corruptions",
                "--scale",
                "tiny",
                *options,
                "--set",
                setting,
                "--out",
                str(out),
            ]
        )
        == 2
    )
    error_text = capsys.readouterr().err.strip()
    assert (
        re.search(words, error_text) and "\n" not in error_text and "Traceback" not in error_text
    ), error_text
    assert not out.exists()
