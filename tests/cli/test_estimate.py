"""`crosswind estimate`: pictures in folders and tables, runs, functions and tables of scores; every
refusal in one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import CrosswindError
from crosswind.core.registry import load
from crosswind.reports.pools.estimate_page import estimate_page
from crosswind.transforms import neighbourhood
from crosswind.transforms.neighbourhood import POOL

MODEL = """
import numpy as np

CENTRES = np.load({path!r})

def near(x):  # the class whose mean picture is nearest
    grey = x.mean(axis=3).reshape(len(x), -1) / 255
    return -((grey[:, None] - CENTRES) ** 2).sum(axis=2)

def bad(x):
    return np.full((len(x), 10), np.nan)

def narrow(x):
    return np.zeros((len(x), 3))

def soft(x):  # probabilities
    p = np.exp(near(x))
    return p / p.sum(axis=1, keepdims=True)

def broken(x):
    raise KeyError("no such layer")

def cut(x):  # as half precision that overflowed
    return np.clip(near(x) * 1e6, -65504, 65504)

def batched(x):  # as batch norm in training mode: the answer depends on the rows beside it
    return near(x) - near(x).mean(axis=0) * 3

def turned(x):
    return near(x[:, ::-1])

def labels(x):
    return near(x).argmax(axis=1)

def moody(x):  # as dropout in training mode: the answer depends on when it is asked
    return near(x) + np.random.default_rng().normal(size=(len(x), 10))
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits as pictures: 300 labelled in folders, 100 others without labels and darker, a table of
    these, and a model."""
    digits_folder = tmp_path_factory.mktemp("digits")
    data = load_digits()
    pixels = (data.images * 255 / 16).astype(np.uint8)
    centres = np.stack(
        [pixels[1000:][data.target[1000:] == k].mean(axis=0).ravel() / 255 for k in range(10)]
    )
    np.save(digits_folder / "centres.npy", centres)
    (digits_folder / "model.py").write_text(MODEL.format(path=str(digits_folder / "centres.npy")))
    for i in range(300):
        folder = digits_folder / "known" / str(data.target[i])
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[i]).save(folder / f"{i}.png")
    (digits_folder / "new").mkdir()
    for i in range(300, 400):
        Image.fromarray((pixels[i] * 0.6).astype(np.uint8)).save(digits_folder / "new" / f"{i}.png")
    names = [f"{i}.png" for i in range(300, 400)]
    polars.DataFrame({"file": names, "label": data.target[300:400].tolist()}).write_csv(
        digits_folder / "new.csv"
    )
    polars.DataFrame({"file": names, "label": data.target[300:400][::-1].tolist()}).write_csv(
        digits_folder / "turned.csv"
    )
    return digits_folder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        neighbourhood,
        "POOL",
        tuple(change for number, change in enumerate(POOL) if number % 3 == 1),
    )


def asked(world: Path, **options: Any) -> Any:
    arguments = {"source": world / "known", "size": 8, "pool_rows": 40, "near_rows": 30, **options}
    return cw.estimate(
        arguments.pop("model", f"{world}/model.py:near"),
        arguments.pop("data", world / "new"),
        **arguments,
    )


@pytest.fixture(scope="module")
def of_function(world: Path) -> Any:
    return asked(world)


@pytest.mark.slow
def test_every_estimate_of_a_function(of_function: Any) -> None:
    estimates = of_function
    assert estimates.n == 100
    assert estimates.source_n == 300
    assert 0.8 < (estimates.source_accuracy or 0) < 1
    names = [row.estimator for row in estimates.rows]
    assert {"average-confidence", "atc-mc", "cbpe", "nuclear-norm", "ni-randaugment"} <= set(names)
    order = [(row.estimate.low is None, row.pool_error) for row in estimates.rows]
    assert all(error is not None for _, error in order)
    assert order == sorted(order)
    assert estimates.believed is estimates.rows[0]
    bare = {row.estimator for row in estimates.rows if row.estimate.low is None}
    assert bare == {"average-confidence", "ni-randaugment"}
    for row in estimates.rows:
        low, high = row.estimate.low, row.estimate.high
        if low is not None:
            assert high is not None
            assert 0 <= low < high <= 1
            assert row.estimate.basis == "pool"
    assert all(
        why in str(estimates)
        for why in (
            "No interval: average-confidence, since of those measured",
            "No interval: ni-randaugment",
        )
    )
    out = dict(estimates.left_out)
    assert set(out) == {
        "agreement-on-the-line",
        "disagreement",
        "dispersion",
        "frobenius-norm",
        "spectral-norm",
    }


def test_estimates_of_a_function_as_text_and_as_a_page(of_function: Any) -> None:
    estimates = of_function
    assert estimates.sentence.startswith(
        f"About {estimates.rows[0].estimate.accuracy:.1%} of these 100 answers are right (90% interval "
    )
    text = str(estimates)
    assert text.index("About") < text.index("estimator ") < text.index("erred least")
    assert "Left out: dispersion" in text


def test_doubtful_rows_of_a_function_are_shown_least_sure_first(of_function: Any) -> None:
    estimates = of_function
    shares = [sum(share for _, share in doubtful.shares) for doubtful in estimates.doubtful]
    assert shares == pytest.approx([1] * len(shares))
    assert estimates.doubtful[0].name.endswith(".png")
    top_shares = [doubtful.shares[0][1] for doubtful in estimates.doubtful]
    assert top_shares == sorted(top_shares)
    assert estimates.doubtful[0].picture is not None
    page = estimate_page(estimates)
    assert estimates.sentence in page
    assert page.count("<img") == len(estimates.doubtful)
    assert "http" not in page.replace("http://www.w3", "")
    assert estimates.frame().height == len(estimates.rows)
    assert "<table>" in estimates._repr_html_()


@pytest.mark.slow
def test_the_pool_is_asked_for_once_whatever_reads_its_neighbours(world: Path) -> None:
    centres = np.load(world / "centres.npy")
    shown = []

    def model(x: np.ndarray) -> np.ndarray:
        shown.append(len(x))
        grey = x.mean(axis=3).reshape(len(x), -1) / 255
        return -((grey[:, None] - centres) ** 2).sum(axis=2)

    counts = []
    for names in (["nuclear-norm"], ["ni-erase"], ["nuclear-norm", "ni-erase", "ni-translate"]):
        shown.clear()
        asked(world, model=model, estimators=names)
        counts.append(sum(shown))
    changes = len(neighbourhood.POOL)
    rows = counts[0] - changes * 40  # the target, some of its rows again, and the source
    neighbours = 2 * 30 * 11 + changes * 20 * 11
    assert counts[1] == counts[0] + neighbours and counts[2] == counts[0] + 2 * neighbours
    assert rows > 0


@pytest.mark.slow
def test_probabilities_are_not_put_through_a_softmax_again(world: Path) -> None:
    names = ["average-confidence", "atc-mc", "nuclear-norm"]
    from_logits, from_probabilities = (
        asked(world, model=f"{world}/model.py:{name}", estimators=names).to_json()
        for name in ("near", "soft")
    )
    for mine, theirs in zip(from_logits["estimates"], from_probabilities["estimates"], strict=True):
        assert mine["estimator"] == theirs["estimator"]
        for key in ("accuracy", "low", "high"):
            assert mine[key] == pytest.approx(theirs[key], abs=1e-4)


@pytest.mark.slow
def test_labels_of_the_target_change_nothing(world: Path) -> None:
    """Not even where its table has them: two tables whose labels differ give the same numbers."""
    tables = [world / name for name in ("new.csv", "turned.csv")]
    with_labels, without_labels = (
        asked(world, data=table, images=world / "new", label="class").to_json() for table in tables
    )
    assert {**with_labels, "data": ""} == {**without_labels, "data": ""}
    assert with_labels["rows"] == 100
    assert with_labels["believed"] is not None


@pytest.mark.slow
def test_a_run_is_its_own_source(tmp_path: Path) -> None:
    study = {
        "name": "small",
        "data": {
            "digits": {
                "source": "digits",
                "label": "digit",
                "attributes": ["ink"],
                "roles": {"test": 4},
            }
        },
        "shifts": {"none": []},
        "models": ["mlp"],
        "training": {"steps": 40, "validate_every": 20},
        "seeds": 1,
        "keep": "selected",
    }
    study_results = cw.run_study(study, tmp_path / "out", workers=0)
    key = study_results.rows[0]["key"]
    names = ["atc-mc", "nuclear-norm"]
    estimates = cw.estimate(
        f"{tmp_path / 'out'}#{key[:12]}", "digits", pool_rows=20, near_rows=10, estimators=names
    )
    validation = next(
        row["metrics"]
        for row in study_results.rows
        if row["set"] == "validation" and row["rule"] == "best-id"
    )
    assert estimates.source_accuracy == pytest.approx(validation["accuracy"])
    assert estimates.source == "the run's validation set"
    assert [row.estimator for row in estimates.rows if row.estimate.basis == "pool"]
    assert estimates.n == 1797
    dispersed = cw.estimate(
        f"{tmp_path / 'out'}#{key[:12]}", "digits", pool_rows=20, estimators=["dispersion"]
    )
    assert [row.estimator for row in dispersed.rows] == ["dispersion"]
    pair = cw.estimate(
        f"{tmp_path / 'out'}#{key[:12]}",
        "digits",
        beside=[f"{tmp_path / 'out'}#{key[:12]}"],
        pool_rows=0,
    )
    assert {row.estimator: row.estimate.accuracy for row in pair.rows}["disagreement"] == 1.0
    for weights in (tmp_path / "out" / "artifacts").rglob("weights-*"):
        weights.unlink()
    with pytest.raises(
        CrosswindError, match="the weights of .* were not kept; run its study with keep: selected"
    ):
        cw.estimate(f"{tmp_path / 'out'}#{key[:12]}", "digits")


@pytest.fixture
def weights(world: Path, tmp_path: Path) -> Path:
    """A perceptron that `near` is: weights and a card."""
    import torch
    from safetensors.torch import save_file

    from crosswind.core.types import InputSpec
    from crosswind.models.build import build_model

    torch.set_num_threads(1)
    network = build_model(
        "mlp", {"hidden": 16, "layers": 1}, InputSpec.image(8, 8, 1), tuple("0123456789"), 3
    )
    save_file(network.state_dict(), str(tmp_path / "net.safetensors"))
    card = {
        "model": "mlp",
        "settings": {"hidden": 16, "layers": 1},
        "classes": list("0123456789"),
        "size": 8,
        "channels": 1,
    }
    (tmp_path / "net.json").write_text(json.dumps(card), encoding="utf-8")
    return tmp_path / "net.safetensors"


def test_a_file_of_weights_is_the_network_of_its_card(world: Path, weights: Path) -> None:
    import torch

    from crosswind.core.types import InputSpec
    from crosswind.models.build import build_model

    estimates = cw.estimate(str(weights), world / "new", world / "known", pool_rows=20, near_rows=0)
    network = build_model(
        "mlp", {"hidden": 16, "layers": 1}, InputSpec.image(8, 8, 1), tuple("0123456789"), 3
    ).eval()
    paths = sorted((world / "new").iterdir())
    pixels = np.stack([np.asarray(Image.open(path)) for path in paths])[:, None].astype(np.float32)
    with torch.inference_mode():
        p = torch.from_numpy(pixels / 127.5 - 1)
        confidence = float(network(p).softmax(1).max(1).values.mean())
    rows = {row.estimator: row.estimate.accuracy for row in estimates.rows}
    assert rows["average-confidence"] == pytest.approx(confidence, abs=1e-5)
    assert "dispersion" in rows
    assert estimates.model == "net.safetensors"
    assert estimates.n == 100


@pytest.mark.slow
def test_an_estimator_of_several_models_whose_code_fails_is_left_out(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise ZeroDivisionError("no rows agree")

    monkeypatch.setattr(load("estimators", "disagreement"), "estimate", fails)
    estimates = asked(world, beside=[f"{world}/model.py:turned"])
    assert len(estimates.rows) > 3
    why = "its code fails on these rows (ZeroDivisionError: no rows agree)"
    assert dict(estimates.left_out)["disagreement"] == why


@pytest.mark.slow
def test_models_are_compared(world: Path) -> None:
    """Agreement is what two functions agree on, by counting; three and labels fit the line."""
    names = ["disagreement", "agreement-on-the-line"]
    two = asked(world, beside=[f"{world}/model.py:turned"], estimators=names)
    pixels = (
        np.stack([np.asarray(Image.open(path)) for path in sorted((world / "new").iterdir())]) / 255
    )
    centres = np.load(world / "centres.npy").reshape(10, 8, 8)
    votes = [
        (((x[:, None] - centres) ** 2).sum((2, 3))).argmin(1) for x in (pixels, pixels[:, ::-1])
    ]
    agreed, rows = (votes[0] == votes[1]).mean(), {row.estimator: row for row in two.rows}
    assert set(rows) == {"disagreement"}
    assert rows["disagreement"].estimate.accuracy == pytest.approx(agreed)
    assert rows["disagreement"].estimate.basis == "rows"
    assert rows["disagreement"].pool_error is None
    assert dict(two.left_out)["agreement-on-the-line"] == "it compares 3 models or more, and has 2"
    three = asked(
        world,
        beside=[f"{world}/model.py:{name}" for name in ("turned", "labels")],
        estimators=names,
    )
    assert {row.estimator for row in three.rows} == set(names)


@pytest.mark.slow
def test_a_table_of_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "def near(texts):\n    return [[float('good' in text), float('bad' in text)] for text in"
        " texts]\n"
    )
    (tmp_path / "words.py").write_text(
        "import numpy as np\n" + code.replace("return [", "return np.array([")[:-1] + ")\n"
    )
    labelled_texts = {
        "text": ["good", "bad", "very good", "so bad"] * 10,
        "label": ["up", "down", "up", "up"] * 10,
    }
    polars.DataFrame(labelled_texts).write_csv(tmp_path / "known.csv")
    polars.DataFrame(
        {"id": range(30), "text": ["good indeed", "bad indeed", "what"] * 10}
    ).write_csv(tmp_path / "new.csv")
    arguments = [
        "--model",
        f"{tmp_path}/words.py:near",
        "--data",
        str(tmp_path / "new.csv"),
        "--source",
        str(tmp_path / "known.csv"),
    ]
    assert _status(["estimate", *arguments, "--classes", "up,down", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["rows"] == 30
    assert report["source_accuracy"] == 0.75
    p = np.exp(1) / (1 + np.exp(1))
    estimates = {row["estimator"]: row["accuracy"] for row in report["estimates"]}
    assert estimates["average-confidence"] == pytest.approx((2 * p + 0.5) / 3)
    assert {"nuclear-norm", "ni-eda"} <= set(estimates)
    assert not {
        "nuclear-norm",
        "ni-randaugment",
    } & set(report["left_out"])


def test_tables_of_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    p = random.dirichlet([0.3] * 3, size=400)
    label = [["a", "b", "c"][random.choice(3, p=row)] for row in p]
    scores = {name: p[:, k] for k, name in enumerate("abc")}
    polars.DataFrame({**scores, "truth": label})[:200].write_csv(tmp_path / "known.csv")
    polars.DataFrame(scores)[200:].write_csv(tmp_path / "new.csv")
    arguments = [
        "estimate",
        "--predictions",
        str(tmp_path / "new.csv"),
        "--source",
        str(tmp_path / "known.csv"),
        "--label",
        "truth",
    ]
    assert _status([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    truth = float(
        (p[200:].argmax(1) == np.array(["abc".index(name) for name in label[200:]])).mean()
    )
    rows = {row["estimator"]: row for row in report["estimates"]}
    assert abs(rows["average-confidence"]["accuracy"] - truth) < 0.06
    assert rows["atc-mc"]["basis"] == "rows"
    assert report["believed"] is None
    assert "ni-randaugment" in report["left_out"]
    assert "nuclear-norm" in report["left_out"]
    assert (
        report["left_out"]["nuclear-norm"]
        == "it learns from changed copies of labelled rows, and a table holds none"
    )
    assert _status(arguments[:3]) == 0
    assert "without labelled rows nothing says how far it is too" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.slow
def test_a_black_box_is_measured_by_its_neighbours(world: Path) -> None:
    estimates = asked(world, model=f"{world}/model.py:labels")
    assert [row.estimator for row in estimates.rows] == ["ni-randaugment"]
    assert estimates.believed is None
    assert estimates.sentence.endswith(
        "are right, by ni-randaugment; no interval could be made that holds."
    )


@pytest.mark.slow
def test_what_is_refused(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    shutil.copytree(world / "known" / "3", tmp_path / "odd" / "horse")
    single_class = tmp_path / "one"
    shutil.copytree(world / "known" / "3", single_class / "3")
    polars.DataFrame({"a": [0.5, 0.9], "b": [0.5, 0.3]}).write_csv(tmp_path / "sums.csv")
    (tmp_path / "percent.csv").write_text("a,b\n40,60\n90,10\n")
    (tmp_path / "nan.csv").write_text("a,b\nnan,0.6\nnan,0.1\n")
    polars.DataFrame({"a": [0.5, None], "b": [0.5, 0.3]}).write_csv(tmp_path / "gaps.csv")
    polars.DataFrame({"a": [0.5], "b": [0.5], "label": ["c"]}).write_csv(tmp_path / "strange.csv")
    polars.DataFrame({"a": [0.5]}).write_csv(tmp_path / "single.csv")
    model, new, known_source = f"{world}/model.py:", str(world / "new"), str(world / "known")

    def given(
        function: str = "near", data: str = new, source: str = known_source, *more: str
    ) -> list[str]:
        return [
            "--model",
            model + function,
            "--data",
            data,
            "--source",
            source,
            "--size",
            "8",
            *more,
        ]

    (tmp_path / "bare.safetensors").write_bytes(b"no weights")
    for name, card in {
        "odd": "{model: mlp, colour: red}",
        "lone": "{model: mlp}",
        "text": "{model: mlp, classes: [a, b]}",
    }.items():
        (tmp_path / f"{name}.safetensors").write_bytes(b"no weights")
        (tmp_path / f"{name}.yaml").write_text(card, encoding="utf-8")

    def file(name: str) -> list[str]:
        return ["--model", str(tmp_path / f"{name}.safetensors"), "--data", new]

    cases = [
        (file("gone"), "--model: there is no file"),
        (
            file("bare"),
            (
                "bare.safetensors needs a card beside it, bare.yaml or bare.json, with model,"
                " settings, classes, size"
            ),
        ),
        (
            file("odd"),
            "the card odd.yaml has 'colour' (valid: model, settings, classes, size, channels, width, columns, texts)",
        ),
        (
            file("lone"),
            (
                "the card of lone.safetensors must name the model, its settings, and its classes as"
                " a list"
            ),
        ),
        (file("text"), "text.safetensors' cannot be read as safetensors"),
        ([*file("text"), "--set", "scale=unit"], "--set: are of an ONNX file or a function"),
        (
            [*file("text"), "--classes", "b,a"],
            "--classes: must be those of the model in its order, or be left out: a, b",
        ),
        (
            given("near", new, known_source, "--beside", "resnet"),
            "--beside: 'resnet' is none of what can be asked",
        ),
        (
            given("near", new, known_source, "--beside", str(tmp_path / "text.safetensors")),
            "text.safetensors has other classes than",
        ),
        (["--data", new], "--model: is needed, or a table of predictions"),
        (
            ["--model", "resnet", "--data", new],
            "--model: 'resnet' is none of what can be asked (valid: STORE#KEY of a run",
        ),
        (["--model", "gone.onnx", "--data", new], "--model: there is no file 'gone.onnx'"),
        (given("nothing"), "error: --model: "),
        (
            given("bad"),
            "the model gave logits that are not finite for the rows of data, such as row 0",
        ),
        (
            given("moody"),
            "otherwise when it is asked again, as in training mode; put it in evaluation mode",
        ),
        (given("batched"), "otherwise when it is asked again, as in training mode"),
        (
            given("cut"),
            (
                "the model gave logits of 65504, where half precision ends, for the rows of data,"
                " such as row 0"
            ),
        ),
        (given("broken"), "the model failed on 100 inputs (KeyError: 'no such layer')"),
        (
            given("narrow"),
            (
                "answered 100 inputs by float64 (100, 3); it must give logits [100, 10] or labels"
                " [100]"
            ),
        ),
        (
            given(data=str(tmp_path / "empty")),
            f"data: the folder {str(tmp_path / 'empty')!r} holds no images",
        ),
        (
            given(data="nowhere"),
            "--data: 'nowhere' is no folder, no .csv or .tsv or .parquet file, and no source",
        ),
        (given(data="gone.csv"), "--data: there is no file 'gone.csv'"),
        (
            given(source=str(single_class)),
            "--classes: the model has one class, so that every answer is right",
        ),
        (
            given("near", new, str(tmp_path / "odd"), "--classes", ",".join("0123456789")),
            "odd has the label 'horse'",
        ),
        (given("near", new, known_source, "--estimators", "atc"), "unknown estimator 'atc'"),
        (
            given("near", new, known_source, "--set", "scale"),
            "--set: 'scale' is not of the form key=value",
        ),
        (
            given("near", new, known_source, "--out", "page.txt"),
            "--out: 'page.txt' is no page by its name",
        ),
        (["--model", f"{tmp_path}#12", "--data", new], "there is no store"),
        (
            ["--predictions", str(tmp_path / "sums.csv")],
            "sums.csv, row 2: probabilities sum to 1.2, not to 1",
        ),
        (
            ["--predictions", str(tmp_path / "percent.csv")],
            "percent.csv, row 1: no score is negative and each row sums to 100",
        ),
        (
            ["--predictions", str(tmp_path / "nan.csv")],
            "nan.csv, row 1: a score is missing or not finite",
        ),
        (
            ["--predictions", str(tmp_path / "gaps.csv")],
            "gaps.csv, row 2: a score is missing or not finite",
        ),
        (
            ["--predictions", str(tmp_path / "single.csv")],
            "single.csv needs a column of scores for each class, two at least",
        ),
        (
            [
                "--predictions",
                str(tmp_path / "strange.csv"),
                "--source",
                str(tmp_path / "strange.csv"),
            ],
            "strange.csv has the label 'c', which is no class of the scores (a, b)",
        ),
        (
            ["--predictions", "x.csv", "--model", "m.onnx"],
            "--predictions: stands in the place of models and data",
        ),
    ]
    for arguments, sentence in cases:
        status, error = (
            _status(["estimate", *arguments]),
            capsys.readouterr().err.strip().splitlines()[-1],
        )
        assert (status, sentence in error) == (2, True), (arguments, error)
    assert len(cases) == 35


@pytest.mark.slow
def test_a_shift_of_labels_is_heard_by_the_choice(world: Path, tmp_path: Path) -> None:
    """Mostly one digit, as bright as the source: what is believed learned from copies whose labels
    shift so, and is right."""
    digits = load_digits()
    random, folder = np.random.default_rng(0), tmp_path / "mostly-zero"
    folder.mkdir()
    other_rows = np.arange(400, 1000)
    chosen = [
        *other_rows[digits.target[other_rows] == 0][:50],
        *random.choice(other_rows[digits.target[other_rows] != 0], 25, replace=False),
    ]
    for i in chosen:
        Image.fromarray((digits.images[i] * 255 / 16).astype(np.uint8)).save(folder / f"{i:04}.png")
    estimates = asked(world, data=folder, pool_rows=60, near_rows=0)
    pixels = digits.images[chosen].astype(np.float64) * 255 / 16
    centres = np.load(world / "centres.npy")
    answers = -((pixels.astype(np.uint8).reshape(len(chosen), 1, -1) / 255 - centres) ** 2).sum(
        axis=2
    )
    right = float((answers.argmax(axis=1) == digits.target[chosen]).mean())
    assert any(finding.name == "label-shift" and finding.warning for finding in estimates.findings)
    best = estimates.believed
    assert best is not None
    assert best.shifted
    assert best.estimator not in ("cot", "cott")
    assert best.estimate.low is not None
    assert best.estimate.high is not None
    assert best.estimate.low <= right <= best.estimate.high
    assert abs(best.estimate.accuracy - right) < 0.08
    assert (
        "drawn so that their labels shift as those of the answers seem to, none of which it had"
        " learned from" in str(estimates)
    )
