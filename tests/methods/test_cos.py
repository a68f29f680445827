"""COS, and what it shares with the other methods that align pairs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.methods.pairs import found, given, info, kept_apart, trained
from tests.training.test_pairs import NOISE
from tests.training.world import run, same_weights, split, with_train

import crosswind as cw
from crosswind.core.errors import InputError, NeedsError
from crosswind.core.registry import load
from crosswind.methods.base import Method
from crosswind.methods.cos import Cos, cosine_distances
from crosswind.methods.erm import ERM
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

NAMES = ("cos", "vicreg", "mmd-align")
ALL = pytest.mark.parametrize("name", NAMES)


def made(name: str, **knobs: Any) -> Method:
    method: Method = load("methods", name)(**({"width": 16} if name == "vicreg" else {}), **knobs)
    return method


def test_distances_by_hand() -> None:
    """(3, 4) and (4, 3): 24 / 25 apart from 1: 0.04. (1, 0) and (0, 2): a right angle, 1. (1, 1)
    and (-2, -2): opposite, 2.

    The mean of the three is 3.04 / 3. Classification: class 0 of both members. In nats log(1 + e^(b
    - a)) of logits (a, b): (3, 4) log(1 + e), (4, 3) log(1 + 1/e), (1, 0) log(1 + 1/e), (0, 2)
    log(1 + e^2), (1, 1) and (-2, -2) log 2.
    """
    batch = given([[3, 4], [1, 0], [1, 1]], [[4, 3], [0, 2], [-2, -2]], [0, 1, 2], [1, 0, 0])
    loss = found(Cos(weight=2.0), batch)
    assert float(loss.terms["alignment"]) == pytest.approx(3.04 / 3)
    classed = (
        math.log(1 + math.e)
        + 2 * math.log(1 + 1 / math.e)
        + math.log(1 + math.e**2)
        + 2 * math.log(2)
    )
    assert float(loss.terms["classification"]) == pytest.approx(classed / 6)
    assert loss.total.item() == pytest.approx(classed / 6 + 2 * 3.04 / 3)


@pytest.mark.parametrize(
    ("clean", "aligned", "mean"),
    [(None, None, 1.02), ("clean", ["noise"], 0.04), (None, ["blur"], 2.0), ("noise", None, 0.04)],
)
def test_only_aligned_environments_count(
    clean: str | None, aligned: list[str] | None, mean: float
) -> None:
    """A pair of clean and noise, 0.04 apart; one of blur and clean, 2; a row without partner, with
    itself. Both: 2.04 / 2.

    Where noise is what others are aligned to, the first pair alone has a member there.
    """
    batch = given([[3, 4], [1, 1], [1, 0]], [[4, 3], [-2, -2], [0, 1]], [0, 2, 1], [1, 0, 1])
    assert float(
        found(Cos(clean=clean, aligned=aligned), batch).terms["alignment"]
    ) == pytest.approx(mean)


def test_distances_are_those_of_a_loop_and_their_slopes_torchs() -> None:
    random = np.random.default_rng(0)
    first, second = (torch.tensor(random.normal(size=(30, 7))).requires_grad_() for _ in range(2))
    ours = cosine_distances(first, second)
    for row, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        product = sum(x * y for x, y in zip(a, b, strict=True))
        assert ours[row].item() == pytest.approx(
            1 - product / math.dist(a, [0] * 7) / math.dist(b, [0] * 7)
        )
    theirs = 1 - torch.nn.functional.cosine_similarity(first, second)
    for mine, torchs in zip(
        *(torch.autograd.grad(distances.sum(), [first, second]) for distances in (ours, theirs)),
        strict=True,
    ):
        assert torch.allclose(mine, torchs)


def test_bf16_embeddings_are_compared_in_float32() -> None:
    first, second = torch.randn(2, 32, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        distances = cosine_distances(first, second)
    assert distances.dtype == torch.float32 and torch.allclose(
        distances.double(), cosine_distances(first.double(), second.double()), atol=1e-5
    )


# -- what holds for all three ----------------------------------------------------------------------

EDGES: dict[str, tuple[Any, Any, list[int], list[int]]] = {
    "one pair": ([[1, 2]], [[3, 1]], [0], [1]),
    "one pair that counts": ([[1, 2], [2, 1]], [[3, 1], [2, 1]], [0, 0], [1, 0]),
    "no pair": ([[1, 2], [2, 1]], [[1, 2], [2, 1]], [0, 0], [0, 0]),
    "no clean row": ([[1, 2], [2, 1]], [[1, 3], [2, 1]], [1, 2], [2, 1]),
    "all zeros": (np.zeros((4, 2)), np.zeros((4, 2)), [0, 0, 1, 2], [1, 2, 0, 0]),
    "some zeros": ([[0, 0], [2, 1], [0, 0]], [[1, 3], [2, 1], [0, 0]], [0, 1, 0], [1, 0, 2]),
    "all alike": (np.ones((4, 2)), np.ones((4, 2)), [0, 0, 1, 2], [1, 2, 0, 0]),
    "an environment absent": (
        [[1, 2], [2, 1], [4, 1]],
        [[1, 3], [3, 1], [4, 2]],
        [0, 0, 2],
        [2, 2, 0],
    ),
    "a row three times": ([[1, 2]] * 3, [[2, 2]] * 3, [0] * 3, [1] * 3),
    "huge": (np.full((2, 2), 1e18), [[1e18, 2e18]] * 2, [0, 0], [1, 1]),
}


@ALL
@pytest.mark.parametrize("edge", EDGES)
def test_edges_give_numbers_and_finite_slopes(name: str, edge: str) -> None:
    method = made(name)
    modules: dict[str, torch.nn.Module] | None = None
    if name == "vicreg":
        from tests.methods.pairs import Plain

        torch.manual_seed(0)
        modules = {
            key: module.double()
            for key, module in method.modules(info(), lambda **_: Plain()).items()
        }  # type: ignore[arg-type]
    loss = found(method, given(*EDGES[edge]), modules)
    assert math.isfinite(loss.total.item())
    if edge in ("no pair", "no clean row"):
        assert float(loss.terms["alignment"]) == 0.0


@ALL
def test_pairs_by_view_train_apart_from_their_limit_and_to_it_at_weight_0(name: str) -> None:
    """A whole run on images seen clean and with noise; instance and class are other runs again."""
    settings: dict[str, Any] = {"steps": 6, "precision": "fp64"}
    runs = {
        by: trained(made(name, pairs=by, crop=0.6), **settings)
        for by in ("view", "instance", "class")
    }
    zero = trained(made(name, weight=0.0, crop=0.6), **settings)
    plain = trained(ERM(), **settings)
    assert all(trajectory.status == "finished" for trajectory in runs.values())

    def apart(first_run: Any, second_run: Any) -> float:
        left, right = first_run.weights("last"), second_run.weights("last")
        return max(
            float((left[key] - right[key]).abs().max()) for key in right if key.startswith("model.")
        )

    all_runs = [*runs.values(), zero, plain]
    assert all(
        apart(first, second) > 1e-5
        for number, first in enumerate(all_runs)
        for second in all_runs[:number]
    )
    again = trained(Cos(weight=0.0, crop=0.6), **settings)
    assert apart(zero, again) < 1e-12  # whatever is not weighed in changes nothing


@ALL
def test_a_run_by_view_that_is_stopped_goes_on_to_the_same_bits(name: str, tmp_path: Path) -> None:
    class StopAtFirstStep(Exception):
        pass

    def stop(event: dict[str, Any]) -> None:
        raise StopAtFirstStep

    method = made(name, pairs="instance", crop=0.5, flip=0.5)
    uninterrupted = trained(method)
    with pytest.raises(StopAtFirstStep):
        trained(method, checkpoint=tmp_path / "run", progress=stop)
    assert same_weights(uninterrupted, trained(method, checkpoint=tmp_path / "run"))


def test_alignment_is_brought_down() -> None:
    """Early in training; later classes that are told well from each other have their embeddings
    near without it."""
    alignment_at = {
        weight: trained(Cos(weight=weight), steps=24).history[-1]["train"]["alignment"]
        for weight in (0.0, 10.0)
    }
    assert alignment_at[10.0] < 0.7 * alignment_at[0.0]


@ALL
def test_what_leaves_no_pair_is_refused_in_a_sentence(name: str) -> None:
    """No class in two environments; images of the table in two; an environment that is not there,
    named twice, or the clean one."""
    sets = split()
    tied = with_train(sets, environment=sets.train.label)
    with pytest.raises(
        NeedsError,
        match="finds no class with training rows both in environment 'red' and in 'blue'",
    ):
        run(made(name, pairs="class"), tied)
    with pytest.raises(
        NeedsError, match=f"method '{name}' shows an image in two environments at pairs = view"
    ):
        run(made(name), sets)
    for knobs, words in (
        ({"clean": "green"}, "method.clean: unknown environment 'green'"),
        ({"aligned": ["noise=clean"]}, "method.aligned: unknown environment 'noise=clean'"),
        (
            {"clean": "clean", "aligned": ["some", "some"]},
            "method.aligned: must be a list of environments, each once",
        ),
        ({"aligned": []}, "method.aligned: must be a list"),
        (
            {"aligned": "some"},
            "method.aligned: must be a list of environments, each once, not 'some'",
        ),
        ({"pairs": "instance"}, "method.crop: pairs by instance are two crops"),
    ):
        with pytest.raises(InputError, match=words):
            run(made(name, **{"clean": "clean", **knobs}), kept_apart(), data=NOISE)


def test_a_subset_of_environments_is_another_run_on_the_same_batches() -> None:
    """Which ones are aligned changes no row: at weight 0 all subsets are one run."""
    all_environments, some_environments = (
        trained(Cos(clean="clean", aligned=aligned), steps=4) for aligned in (None, ["some"])
    )
    assert not same_weights(all_environments, some_environments)
    zero = [
        trained(Cos(clean="clean", aligned=aligned, weight=0.0), steps=4)
        for aligned in (None, ["some"])
    ]
    keys = [key for key in zero[0].weights("last") if key.startswith("model.")]
    assert keys and all(
        torch.equal(*(trajectory.weights("last")[key] for trajectory in zero)) for key in keys
    )


def study(mode: str = "per-visit", **cos: Any) -> dict[str, Any]:
    """Real digits: five of the ten are seen in noise too, and the other five are tested in it."""
    derive = {
        "name": "state",
        "transform": "gaussian-noise",
        "mode": mode,
        "values": {"clean": None, "noise": {"severity": 5}},
    }
    data = {
        "source": "digits",
        "label": "digit",
        "attributes": ["state"],
        "derive": derive,
        "roles": {"test": 4, "validation": 0.2},
    }
    return {
        "data": {"digits": data},
        "shifts": {
            "apart": {
                "type": "systematic",
                "environment": "state",
                "classes": {"clean": "all", "noise": [0, 1, 2, 3, 4]},
            }
        },
        "sizes": {"some": {"total": 200}},
        "sets": {
            "validation": {"role": "validation", "law": "train"},
            "test": {"role": "test", "law": "unseen"},
        },
        "environments": ["state"],
        "models": {"small": {"model": "mlp", "hidden": 16, "layers": 2}},
        "methods": {"erm": {}, "cos": cos},
        "training": {"steps": 4, "batch": 32, "validate_every": 2},
        "seeds": 1,
    }


def test_a_study_of_classes_kept_apart_aligns_by_view(tmp_path: Path) -> None:
    rows = cw.run_study({"name": "apart", **study(aligned=["noise"])}, tmp_path).rows
    losses = {
        row["method"]: row["metrics"]["nll"]
        for row in rows
        if row["set"] == "test" and row["rule"] == "last"
    }
    assert set(losses) == {"erm", "cos"} and losses["erm"] != losses["cos"]
    assert {row["status"] for row in rows} == {"finished"}


@pytest.mark.parametrize(
    ("mode", "knobs", "words"),
    [
        (
            "fixed",
            {},
            (
                r"^methods\.cos.* shows an image in two environments at pairs = view, so one of"
                r" 'environments' must be an attr"
            ),
        ),
        (
            "per-visit",
            {"aligned": ["clean"]},
            r"^methods\.cos.*\.aligned: unknown environment 'clean' \(valid: state=noise\)",
        ),
        (
            "per-visit",
            {"clean": "foggy"},
            (
                r"^methods\.cos.*\.clean: unknown environment 'foggy' \(valid: state=clean,"
                r" state=noise\)"
            ),
        ),
        (
            "per-visit",
            {"pairs": "instance"},
            r"^methods\.cos.*\.crop: pairs by instance are two crops of an image",
        ),
    ],
)
def test_a_plan_refuses_what_a_run_would_in_a_sentence(
    mode: str, knobs: dict[str, Any], words: str, tmp_path: Path, capsys: Any
) -> None:
    with pytest.raises((InputError, NeedsError), match=words) as error:
        make_plan(study_from(study(mode, **knobs), name="apart"))
    assert "\n" not in str(error.value)
