"""The studies ng2022/*: pools of networks that are trained, and networks that are given."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau
from tests.data import wild_files as wild
from tests.data.cifar_files import CLASSES, binary_files, pictures, png, tar_gz
from tests.data.digit_files import drawn_digits, write_mnist, write_svhn, write_usps
from tests.data.picture_files import written

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import CrosswindError
from crosswind.core.registry import load
from crosswind.data.imagenet_classes import synsets
from crosswind.data.prepared import prepare
from crosswind.data.sources.base import PreparedSource
from crosswind.data.sources.cifar import Cifar10, Cifar101, Cifar102, Cinic10
from crosswind.data.sources.mnist import Mnist, Svhn, Usps
from crosswind.reports.pools import estimate_sections
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.spec import load_study


def ready(*sources: PreparedSource) -> None:
    for source in sources:
        prepare(source, accept_totals=True)


@pytest.fixture
def cifar(tmp_path: Path) -> Path:
    for name in ("cifar10", "cifar10.1"):
        (tmp_path / "originals" / name).mkdir(parents=True)
    tar_gz(
        tmp_path / "originals/cifar10/cifar-10-binary.tar.gz",
        binary_files([pictures(60, i) for i in range(6)]),
        "cifar-10-batches-bin",
    )
    images, labels = pictures(60, 7)
    np.save(tmp_path / "originals/cifar10.1/cifar10.1_v6_data.npy", images)
    np.save(tmp_path / "originals/cifar10.1/cifar10.1_v6_labels.npy", labels.astype(np.int32))
    ready(
        *(kind(root=str(tmp_path), size=side) for kind in (Cifar10, Cifar101) for side in (16, 32))
    )
    return tmp_path


@pytest.fixture
def cinic(cifar: Path) -> Path:
    """CIFAR-10's family with the two sets that only networks on CINIC-10 and `paper` ask for."""
    for name in ("cinic10", "cifar10.2"):
        (cifar / "originals" / name).mkdir()
    files = {}
    for number, part in enumerate(("train", "valid", "test")):
        for row, (image, label) in enumerate(zip(*pictures(200, 20 + number), strict=True)):
            files[f"{part}/{CLASSES[label]}/n02690373_{row}.png"] = png(image)
    tar_gz(cifar / "originals/cinic10/CINIC-10.tar.gz", files, ".")
    for number, part in enumerate(("train", "test")):
        images, labels = pictures(60, 30 + number)
        np.savez(
            cifar / f"originals/cifar10.2/cifar102_{part}.npz",
            images=images,
            labels=labels,
            label_names=np.array(CLASSES),
        )
    root = str(cifar)
    ready(Cinic10(root=root, size=16), Cinic10(root=root), Cifar102(root=root))
    return cifar


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    write_mnist(tmp_path / "originals" / "mnist", [drawn_digits(300, 0), drawn_digits(100, 1)])
    write_usps(tmp_path / "originals" / "usps", [drawn_digits(60, 2, 16), drawn_digits(60, 3, 16)])
    images, labels = drawn_digits(60, 4, 32)
    coloured = np.repeat(images[..., None], 3, axis=3)
    write_svhn(
        tmp_path / "originals" / "svhn",
        {"train": (coloured, labels), "test": (coloured + np.uint8(1), labels)},
    )
    root = str(tmp_path)
    ready(Mnist(root=root), Mnist(root=root, size=32), Usps(root=root, size=28), Svhn(root=root))
    return tmp_path


def planned(study: str, scale: str | None, root: Path) -> Plan:
    """The plan, at the small scale with fewer rows: there are 300."""
    study_found = load_study(study, scale, [])
    settings = [f"data.{name}.options.root={root}" for name in study_found.data]
    if scale == "small":
        drawn = [
            name for name, set_spec in study_found.sets.items() if isinstance(set_spec.draw, dict)
        ]
        settings += [
            *(f"sizes.all.{main}.total=100" for main in study_found.sizes["all"]),
            *(f"sets.{name}.draw.total=20" for name in drawn),
        ]
    return make_plan(load_study(study, scale, settings))


def pool(plan: Plan) -> Counter[str]:
    """Trained networks by architecture."""
    return Counter(run.labels["model"].split("-")[0] for run in plan.runs)


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "networks"), [("tiny", 6), ("small", 24), (None, 180)])
def test_the_pool_on_cifar_is_the_product_of_networks_and_ways_to_train(
    cifar: Path, scale: str | None, networks: int
) -> None:
    plan = planned("ng2022/cifar", scale, cifar)
    assert sum(pool(plan).values()) == networks and {"nin", "vgg"} <= set(pool(plan))
    sets = {"validation", "test", "cifar10-1", "gaussian-noise"} | (
        {"defocus-blur", "fog", "pixelate"} if scale != "tiny" else set()
    )
    assert set(plan.study.sets) == sets
    if scale != "tiny":
        assert {"cnn", "resnet"} <= set(pool(plan))


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "networks"), [("tiny", 8), ("small", 16), (None, 128)])
def test_the_pool_on_cinic_is_table_1_s_and_is_tested_on_cifar_and_its_successors(
    cinic: Path, scale: str | None, networks: int
) -> None:
    plan = planned("ng2022/cinic10", scale, cinic)
    assert pool(plan) == {"cnn": networks}
    assert {run.labels["data"] for run in plan.runs} == {"cinic10"}
    targets = {"cifar10", "cifar10-1"} | ({"cifar10-2"} if scale != "tiny" else set())
    assert set(plan.study.sets) == {"validation", "test"} | targets


@pytest.mark.parametrize("scale", [None, "tiny", "small", "paper"])
def test_flips_and_crops_come_without_a_jitter_of_colours(scale: str | None) -> None:
    """Table 5 compares networks with and without flips and crops, and nothing else."""
    methods = load_study("ng2022/cifar", scale).methods
    assert isinstance(methods, dict)
    settings = dict(methods["flip-crop"] or {})
    settings.pop("training", None)  # small gives them passes of their own
    assert settings == {"method": "imagenet", "jitter": 0.0}


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "networks"), [("tiny", 12), ("small", 16), (None, 32)])
def test_both_forms_are_asked_of_the_same_votes(
    cifar: Path, scale: str | None, networks: int
) -> None:
    write_mnist(cifar / "originals" / "mnist", [drawn_digits(300, 0), drawn_digits(100, 1)])
    ready(*(Mnist(root=str(cifar), size=side) for side in (16, 32)))
    plan = planned("ng2022/entropy", scale, cifar)
    assert sum(pool(plan).values()) == networks and {run.labels["data"] for run in plan.runs} == {
        "cifar10",
        "mnist",
    }
    reads = {}
    for job in plan.jobs:
        if job.kind == "estimate" and job.labels["estimator"][:3] in ("ni-", "ne-"):
            where = tuple(job.labels[key] for key in ("data", "model", "method", "seed", "set"))
            reads[(*where, job.labels["estimator"])] = job.spec["reads"]["target"]
    pairs = [key for key in reads if key[-1].startswith("ni-")]
    assert len(pairs) == networks * 4 * 4
    assert all(reads[key] == reads[(*key[:-1], key[-1].replace("ni-", "ne-"))] for key in pairs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "networks"), [("tiny", 6), ("small", 24), (None, 88), ("paper", 60)]
)
def test_the_pool_on_digits_trains_on_mnist_and_at_paper_scale_on_svhn(
    numbers: Path, scale: str | None, networks: int
) -> None:
    plan = planned("ng2022/numbers", scale, numbers)
    assert sum(pool(plan).values()) == networks
    assert {run.labels["data"] for run in plan.runs} == {"svhn" if scale == "paper" else "mnist"}
    assert ("usps" in plan.study.sets) == (scale != "paper") and "colored-mnist" in plan.study.sets


@pytest.mark.parametrize(
    ("study", "targets"),
    [
        ("cifar", {"cifar10-1", "cifar10-2", "cinic10"}),
        ("numbers", {"mnist", "colored-mnist"}),
        ("transforms", {"mnist", "colored-mnist"}),
    ],
)
def test_the_targets_of_the_paper_s_scale_are_those_of_table_2b(
    study: str, targets: set[str]
) -> None:
    """A macro tau is a mean over them: one more would make it another number."""
    spec = load_study(f"ng2022/{study}", "paper")
    assert set(spec.sets) - {"validation", "test"} == targets
    assert {spec.sets[name].source for name in targets} <= set(spec.data)


FIGURE_5 = [
    *("randaugment", "affine-10", "erase", "flip-crop", "rotate-20", "rotate-30"),
    *("translate-10", "translate-30", "shear-15", "color", "contrast", "brightness"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "networks"), [("tiny", 8), ("small", 12), (None, 48), ("paper", 48)]
)
def test_twelve_transforms_are_twelve_neighbourhoods_of_the_same_networks(
    numbers: Path, scale: str | None, networks: int
) -> None:
    if scale == "tiny":  # scikit-learn's own digits: nothing to prepare
        plan = make_plan(load_study("ng2022/transforms", scale, []))
    else:
        plan = planned("ng2022/transforms", scale, numbers)
    assert pool(plan) == {"nin": networks}
    assert list(plan.study.estimators) == [*FIGURE_5, "atc-mc"]
    tests = [name for name, set_spec in plan.study.sets.items() if set_spec.role == "test"]
    copies = [job for job in plan.jobs if job.kind == "vary" and job.spec["near"]]
    assert len(copies) == networks * len(tests) * 12
    assert len({job.key for job in copies}) == len(copies)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "networks", "distances"),
    [("tiny", 6, 4), ("small", 40, 9), (None, 200, 9), ("paper", 200, 40)],
)
def test_the_hypersphere_has_a_set_at_every_distance_and_shares_of_noise(
    scale: str | None, networks: int, distances: int
) -> None:
    """The distances of the sets are those at which the source draws clouds, each of which is tested
    whole."""
    plan = make_plan(load_study("ng2022/hypersphere", scale, []))
    assert pool(plan) == {"mlp": networks}
    tests = {name: spec for name, spec in plan.study.sets.items() if spec.role == "test"}
    assert len(tests) == distances
    shares = [settings["label_noise"] for settings in plan.study.methods.values()]
    assert (
        min(shares) == 0
        and max(shares) == 0.3
        and len(shares) * len(plan.study.seed_list) == networks
    )
    source = load("sources", "hypersphere")(**plan.study.data["sphere"].options)
    laws = {name: spec.law["values"] for name, spec in tests.items() if name != "pole"}
    assert [0, *(angle for (angle,) in laws.values())] == source.angles
    for name, (angle,) in laws.items():
        number, _, of_all = name.partition("-of-")
        assert round(int(number) / int(of_all), 3) == angle
    neighbour_jobs = [job for job in plan.jobs if job.kind == "vary" and job.spec["near"]]
    assert len(neighbour_jobs) == networks * distances


@pytest.mark.parametrize("study", ["ng2022/cifar", "ng2022/numbers"])
def test_without_the_data_the_plan_says_what_to_prepare(study: str, tmp_path: Path) -> None:
    with pytest.raises(
        CrosswindError,
        match=r"^\d things stand in the way .*data\.\w+.*: there is no prepared copy of \w+ in .*"
        r": crosswind prepare",
    ):
        planned(study, "small", tmp_path)


# six runs of four steps each, eleven answers a row for four neighbourhoods, and the
# report of them
@pytest.mark.parametrize(
    ("name", "networks", "pools"),
    [
        pytest.param("cifar", 6, 1, marks=pytest.mark.slow),
        pytest.param("cinic10", 8, 1, marks=pytest.mark.verify),
        pytest.param("numbers", 6, 1, marks=pytest.mark.slow),
        pytest.param("entropy", 6, 2, marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("in_this_process")
def test_the_tiny_pools_run_and_their_estimators_are_judged(
    name: str, networks: int, pools: int, request: pytest.FixtureRequest
) -> None:
    root = request.getfixturevalue({"numbers": "numbers", "cinic10": "cinic"}.get(name, "cifar"))
    if name == "entropy":
        write_mnist(root / "originals" / "mnist", [drawn_digits(300, 0), drawn_digits(100, 1)])
        ready(Mnist(root=str(root), size=16))
    settings = [
        word
        for data in load_study(f"ng2022/{name}", "tiny", []).data
        for word in ("--set", f"data.{data}.options.root={root}")
    ]
    assert (
        _status(
            [
                "run",
                f"ng2022/{name}",
                "--scale",
                "tiny",
                *settings,
                "--out",
                str(root / "out"),
                "--workers",
                "1",
            ]
        )
        == 0
    )
    report = cw.report(root / "out")
    assert len(report.pools) == pools
    for judged in report.pools:
        assert len(judged.pool.methods) == networks and not judged.pool.missed
        assert {"ni-randaugment", "ne-randaugment", "atc-mc"} <= judged.pool.values.keys() and len(
            judged.tables
        ) == 7
        form, *_ = (table for table in judged.tables["forms"] if "forms" in table.name)
        assert form.rows[0][0] == "ne-randaugment"
    section = estimate_sections.pools(report)
    undefined = sum(
        not judged.tables["domains"] for judged in report.pools
    )  # of networks this small, which may all be alike
    assert len(section.groups) == 7 * pools - undefined and section.title in (
        root / "out" / "report.html"
    ).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_the_tiny_hypersphere_has_a_tau_at_every_distance(tmp_path: Path) -> None:
    """The curve of figure 3: the tau of the page's column is that of the values in the rows."""
    out = str(tmp_path / "out")
    words = ["run", "ng2022/hypersphere", "--scale", "tiny", "--out", out, "--workers", "1"]
    assert _status(words) == 0
    (judged,) = cw.report(out).pools
    pairs: dict[str, list[tuple[float, float]]] = {}
    for point in judged.pool.values["ni"]:
        pairs.setdefault(point.test, []).append((point.value, point.accuracy))
    assert list(pairs) == ["sphere", "2-of-8", "4-of-8", "8-of-8"]
    assert {len(networks) for networks in pairs.values()} == {6}
    table = next(table for table in judged.tables["domains"] if "tau" in table.title)
    assert table.columns == ("measure", "sphere", "2-of-8", "4-of-8", "8-of-8")
    shown = dict(zip(table.columns, next(row for row in table.rows if row[0] == "ni"), strict=True))
    assert judged.tau_figure is not None
    drawn = {
        row["t"]: row["v"] for row in judged.tau_figure.spec["datasets"]["rows"] if row["m"] == "ni"
    }
    for name in ("sphere", "2-of-8", "8-of-8"):
        tau = kendalltau(*zip(*pairs[name], strict=True)).statistic
        assert float(str(shown[name]).split()[0]) == pytest.approx(tau, abs=5.1e-4)
        assert drawn[name] == pytest.approx(tau, abs=1e-6)


@pytest.mark.parametrize(
    ("study", "sentence"),
    [
        ("ng2022/imagenet", "models.alexnet.path: there is no file 'networks/alexnet.onnx'"),
        ("ng2022/across-domains", "models.network.path: there is no file 'network.onnx'"),
    ],
)
def test_without_the_networks_the_plan_names_the_file(
    study: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CrosswindError, match=re.escape(sentence)):
        make_plan(load_study(study, None, []))


def folders(folder: Path, names: tuple[str, ...], side: int = 16) -> None:
    """Folders of four pictures for each of three classes; a class has its own brightness, with
    noise."""
    for place_of, name in enumerate(names):
        draw = np.random.default_rng(place_of)
        for code, label in enumerate(("n01", "n02", "n03")):
            (folder / name / label).mkdir(parents=True)
            for number in range(4):
                image = np.clip(
                    60 + 60 * code + draw.integers(-30, 30, (side, side, 3)), 0, 255
                ).astype(np.uint8)
                (folder / name / label / f"{number}.png").write_bytes(png(image))


FUNCTION = """
import numpy as np

def logits(x):
    bright = x.reshape(len(x), -1).mean(1)
    return -np.abs(bright[:, None] - np.array([60.0, 120.0, 180.0])) / 40
"""


@pytest.mark.slow
def test_given_networks_are_estimated_on_every_set_and_nothing_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders(tmp_path, ("domains/source", "domains/one", "domains/two", "domains/three"))
    (tmp_path / "given.py").write_text(FUNCTION, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    study = load_study("ng2022/across-domains", None, [])
    values = {
        **study.model_dump(exclude_defaults=True),
        "models": {"given": {"model": "callable", "function": "given.py:logits"}},
    }
    for entry in values["data"].values():
        entry["options"] |= {"size": 16}
    study_results = cw.run_study(values, tmp_path / "out")
    rows = {row["set"]: row["metrics"] for row in study_results.rows if row["set"] != "validation"}
    assert list(rows) == ["test", "noise-1", "noise-3", "noise-5", "one", "two", "three"]
    assert {row["method"] for row in study_results.rows} == {"given"}
    assert all(
        np.isfinite(row["estimate:average-confidence"]) and row["accuracy"] > 0.5
        for row in rows.values()
    )


NETWORK = """
import numpy as np
from crosswind.data.imagenet_classes import groups

CHAIR, CLOCK = 765, 530
ELSEWHERE = 0  # a tench, which none of the smaller sets has

def outputs(pictures):
    found = np.zeros((len(pictures), 1000), np.float32)
    found[:, ELSEWHERE] = 9
    found[np.arange(len(pictures)), np.where(pictures[:, 4, 4, 1] > 30, CLOCK, CHAIR)] = 3
    return found
"""


@pytest.mark.slow
def test_on_a_smaller_set_a_network_answers_among_its_classes_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network calls everything a tench, and next a chair or a clock: right on all of
    ObjectNet's if it may not say tench.

    With `answers: all` the same network, in the same store, is wrong on every row of ObjectNet.
    """
    monkeypatch.setenv("CROSSWIND_DATA", str(tmp_path / "data"))
    names = [synsets()[class_number] for class_number in (0, 1, 2, 5, 10, 15, 987)]
    files = {"LOC_synset_mapping.txt": "\n".join(names).encode()}
    files |= wild.named(
        *(f"val/{name}/{name}_{number}.JPEG" for name in names for number in range(4))
    )
    written(tmp_path / "imagenet", files)
    originals = {
        ("imagenet-v2", ""): wild.imagenet_v2(),
        ("imagenet-sketch", ""): wild.imagenet_sketch(),
        ("imagenet-r", ""): wild.imagenet_r(),
        ("imagenet-a", ""): wild.imagenet_a(),
        ("objectnet", ""): wild.objectnet(4),
        ("imagenet-vid", "anchor"): wild.imagenet_vid(),
        ("ytbb", "anchor"): wild.ytbb(),
    }
    for (name, frames), content in originals.items():
        source = load("sources", name)(size=8, **({"frames": frames} if frames else {}))
        prepare(
            source,
            originals=str(written(tmp_path / "originals" / name, content)),
            accept_totals=True,
        )
    (tmp_path / "given.py").write_text(NETWORK, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    values = load_study("ng2022/imagenet", None, []).model_dump(exclude_defaults=True)
    values |= {
        "models": {"given": {"model": "callable", "function": "given.py:outputs"}},
        "estimators": {"average-confidence": {}},
    }
    for entry in values["data"].values():
        entry["options"] |= {"size": 8}
    rows = {row["set"]: row["metrics"] for row in cw.run_study(values, tmp_path / "out").rows}
    assert list(rows) == [
        "validation",
        "test",
        "v2",
        "sketch",
        "r",
        "a",
        "objectnet",
        "vid",
        "ytbb",
    ]
    assert rows["objectnet"]["accuracy"] == 1.0
    assert np.isfinite(rows["objectnet"]["estimate:average-confidence"])
    assert (
        rows["v2"]["accuracy"] == 1 / 3
    )  # all 1,000 classes may be said there, and one picture in three is a tench
    values["sets"]["objectnet"]["answers"] = "all"
    rows = {row["set"]: row["metrics"] for row in cw.run_study(values, tmp_path / "out").rows}
    assert rows["objectnet"]["accuracy"] == 0.0
