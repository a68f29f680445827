"""Faults that implementations of such methods have had, each looked for in every registered method.

One short run of each method on noisy labels is recorded, and looked at from all sides. Where a
fault concerns one method alone its test is in that method's file; what must be refused or told of
is in `tests/contract/test_pairings.py`, resumption and limits in `crosswind.testing`,
rows of sets and noise in `tests/shifts`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.world import DATA, QUICK, Sets, rows_of, run, split, with_train

from crosswind.core.registry import listing, load
from crosswind.core.types import InputSpec
from crosswind.methods.base import Batch, Info, Method
from crosswind.methods.erm import ERM
from crosswind.models.build import Model, build_model, unnamed
from crosswind.storage.store import Store
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from
from crosswind.training.loader import TrainingRows
from crosswind.training.loop import Trajectory

FACTS = {facts.name: facts for facts in listing("methods") if facts.module.startswith("crosswind.")}
EVERY = pytest.mark.parametrize("name", [name for name in FACTS if name != "lora"])
"""All but the one that these tests' network has no layer for: `tests/contract` and its own tests
try it."""
ADAPTING = [name for name, facts in FACTS.items() if facts.needs and facts.needs.adapts]
BASED = [name for name, facts in FACTS.items() if facts.needs and facts.needs.base]
BY_ENVIRONMENT = [
    name
    for name, facts in FACTS.items()
    if facts.needs and facts.needs.sampler == "per-environment"
]
BY_GROUP = [name for name, facts in FACTS.items() if facts.needs and facts.needs.groups]
OWN = [name for name, facts in FACTS.items() if "predict" in facts.defines]
"""Methods that answer by more than the model's forward pass: their own tests look at what they
predict."""
OWN_NETWORK = ["beta-vae"]
"""Methods whose networks are not of the study's model."""
APPENDING = {"ada": 2, "cyclegan": 0, "me-ada": 2}
"""Methods whose last stage has copies among its rows, and by how many steps it is shorter than the
run."""
PAIRED = {
    name: {facts.needs.pairs: "class"}
    for name, facts in FACTS.items()
    if facts.needs and facts.needs.pairs
}
"""Methods that pair rows, here of a class, since these rows show no image in two environments."""
STEPS = 8


def test_the_sweeps_find_the_methods() -> None:
    assert (
        len(FACTS) >= 18
        and ADAPTING == ["bn-adapt"]
        and BASED == ["bpa", "jtt", "ubnet", "wise-ft"]
        and BY_GROUP == ["groupdro"]
    )
    assert list(PAIRED) == ["cos", "mmd-align", "vicreg"]
    assert OWN == ["l2d", "occamnets", "pnd", "ubnet"]
    assert set(BY_ENVIRONMENT) >= {
        "causirl-coral",
        "causirl-mmd",
        "dann",
        "deepcoral",
        "irm",
        "mixup",
        "mmd",
    }


def method_of(name: str) -> Method:
    """At its defaults, but for switches, which come at step 2."""
    cls = load("methods", name)
    method_object: Method = cls(**{**QUICK.get(name, {}), **dict.fromkeys(cls.needs.switches, 2)})
    return method_object


def noisy() -> Sets:
    """Every fifth training label is the other class; beside the test set some of its rows alone,
    backwards."""
    sets = split()
    flipped = np.arange(60) % 5 == 0
    other_rows = rows_of(DATA, np.arange(189, 152, -3))
    label = np.where(flipped, 1 - sets.train.label, sets.train.label)
    sets_held = {"validation": sets.validation["validation"]}
    return replace(
        with_train(sets, label=label),
        validation=sets_held,
        evaluation={**sets.evaluation, "part": other_rows},
    )


@dataclass
class Recorded:
    """A run and the batches of its last stage."""

    found: Trajectory
    batches: list[Batch]


@cache
def recorded(name: str) -> Recorded:
    batches_seen: list[Batch] = []
    plain = TrainingRows.batch

    def spied(self: Any, step: int, length: int) -> Batch:
        batch_made = plain(self, step, length)
        if step == 0:
            batches_seen.clear()
        batches_seen.append(replace(batch_made, x=batch_made.x.clone()))
        return batch_made

    TrainingRows.batch = spied  # type: ignore[method-assign]
    try:
        return Recorded(
            run(method_of(name), noisy(), model="small-cnn", steps=STEPS, validate_every=STEPS),
            batches_seen,
        )
    finally:
        TrainingRows.batch = plain  # type: ignore[method-assign]


def pictures(rows: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(DATA.inputs(rows)).permute(0, 3, 1, 2).float() / 127.5 - 1


def network(name: str) -> Model:
    """The classifier with the weights of the end, in training mode."""
    model = build_model("small-cnn", {}, InputSpec.image(8, 8, 3), unnamed(2), 0)
    trained_weights = recorded(name).found.weights("last").items()
    model.load_state_dict(
        {
            key.removeprefix("model."): value
            for key, value in trained_weights
            if key.startswith("model.")
        }
    )
    return model


# -- evaluation ------------------------------------------------------------------------------------


@pytest.mark.slow
@EVERY
def test_predictions_are_of_running_statistics_and_of_pictures_as_they_are(name: str) -> None:
    """Faults 1, 2 and 12: no batch statistics, no random style, no augmentation, and no row left
    out.

    45 rows are one evaluation batch of 32 and 13 of another. A method that adapts does so to test
    sets, and validation is plain.
    """
    predictions = recorded(name).found.predictions["last"]
    assert {key: len(set_predictions) for key, set_predictions in predictions.items()} == {
        "validation": 30,
        "test": 45,
        "part": 13,
    }
    assert predictions["part"].ids.tolist() == list(range(189, 152, -3))
    for key, rows in {"validation": np.arange(90, 120), "test": np.arange(150, 195)}.items():
        if key == "test" and name in ADAPTING:
            continue
        assert predictions[key].ids.tolist() == rows.tolist()
        if name in OWN + OWN_NETWORK:
            continue
        with torch.inference_mode():
            expected = network(name).eval()(pictures(rows)).numpy()
            trained = network(name).train()(pictures(rows)).numpy()
        assert np.allclose(predictions[key].logits, expected, atol=1e-5)  # type: ignore[arg-type]
        assert not np.allclose(trained, expected, atol=1e-3), (
            "the statistics of these rows would give other numbers"
        )


@pytest.mark.slow
@EVERY
def test_predictions_of_a_row_do_not_depend_on_the_rows_beside_it(name: str) -> None:
    """13 of the test rows alone, backwards, have the bits that they have among all. What adapts
    sees another lot, and says so."""
    predictions = recorded(name).found.predictions["last"]
    same = np.array_equal(
        predictions["test"].logits[predictions["part"].ids - 150], predictions["part"].logits
    )  # type: ignore[index, arg-type]
    assert same == (name not in ADAPTING)


# -- training rows ---------------------------------------------------------------------------------


@pytest.mark.slow
@EVERY
def test_labels_and_rows_are_the_same_at_every_visit(name: str) -> None:
    """Faults 3, 4 and 7: noise is fixed by row, ids are places in the training set, and no
    validation row is among them."""
    train, batches = noisy().train, recorded(name).batches
    ids = torch.cat([batch.ids for batch in batches])
    assert (
        len(ids) == (STEPS - APPENDING.get(name, 0)) * 16
        and int(ids.min()) >= 0
        and int(ids.max()) < 60
    )
    assert torch.bincount(ids).max() > 1
    for field in ("label", "group", "environment"):
        values_of_batches = torch.cat(
            [getattr(batch, "y" if field == "label" else field) for batch in batches]
        )
        assert torch.equal(values_of_batches, torch.from_numpy(getattr(train, field))[ids]), field
    if method_of(name).views() == (None,):
        x = torch.cat([batch.x for batch in batches])
        same = ((x - pictures(train.rows[ids.numpy()])).abs() <= 1e-6).flatten(1).all(1)
        assert same.all() if name not in APPENDING else 0 < same.double().mean() < 0.8


@pytest.mark.slow
@EVERY
def test_no_row_comes_twice_in_an_epoch_unless_the_method_draws_so(name: str) -> None:
    """Fault 3. JTT's rows stand once or `up` times, as it says, and a copy carries the id of its
    row; every environment has epochs of its own. Groups are even here.
    """
    ids = torch.cat([batch.ids for batch in recorded(name).batches])
    environment = torch.from_numpy(noisy().train.environment)
    if name in BY_ENVIRONMENT:
        for code in (0, 1):
            ids_of_environment = ids[environment[ids] == code]
            assert (
                sorted(ids_of_environment[:30].tolist())
                == torch.where(environment == code)[0].tolist()
            )
    else:
        once = sorted(ids[:60].tolist()) == list(range(60))
        assert once == (name not in ("jtt", *APPENDING))


# -- stages ----------------------------------------------------------------------------------------


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("seed", [0, 3])
def test_training_starts_from_the_seeds_own_weights(name: str, seed: int) -> None:
    """Fault 6: with no step done the network is the seed's, whatever network the method was given
    to start with."""
    sets = replace(split(), evaluation={})
    base = (
        run(ERM(), sets, model="small-cnn", steps=1, seed=5).weights("last")
        if name in BASED
        else None
    )
    initial_weights = run(
        method_of(name), sets, model="small-cnn", steps=0, seed=seed, base=base
    ).weights("last")
    fresh = build_model("small-cnn", {}, InputSpec.image(8, 8, 3), unnamed(2), seed).state_dict()
    other_seed = build_model(
        "small-cnn", {}, InputSpec.image(8, 8, 3), unnamed(2), 3 - seed
    ).state_dict()
    if name in [
        "ubnet",
        "wise-ft",
        *OWN_NETWORK,
    ]:  # its model is the first network, or what it trains is its own
        again = run(
            method_of(name), sets, model="small-cnn", steps=0, seed=3 - seed, base=base
        ).weights("last")
        assert any(not torch.equal(value, again[key]) for key, value in initial_weights.items())
        return
    assert all(torch.equal(value, initial_weights[f"model.{key}"]) for key, value in fresh.items())
    assert not torch.equal(other_seed["fc.weight"], initial_weights["model.fc.weight"])


@pytest.mark.slow
@EVERY
def test_a_run_that_diverges_is_scored_and_does_not_fail(name: str) -> None:
    """At an absurd learning rate, with the first network diverged too where there is one."""
    trajectory = run(method_of(name), model="small-cnn", steps=6, validate_every=3, lr=1e30)
    assert trajectory.status == "diverged" and len(trajectory.predictions["last"]["test"]) == 45
    loss = trajectory.history[-1]["train"].get(
        "loss"
    )  # wise-ft takes no step after its first network's
    assert loss is None or not np.isfinite(loss)
    if name in BASED and name != "wise-ft":
        assert any("the first network diverged" in text for text in trajectory.warnings)


# -- small groups ----------------------------------------------------------------------------------

PATTERNS = {
    "one row": [0],
    "one each": [0, 1, 2, 3],
    "one of two": [0, 0, 0, 2],
    "two of one": [1, 1],
    "all of one": [3, 3, 3, 3],
    "one among many": [0, 0, 0, 1, 1, 1, 2],
}


def _loss(name: str, codes: list[int]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    method, n = method_of(name), len(codes)
    info = Info(
        InputSpec.image(8, 8, 3),
        2,
        30,
        ("a",) * 4,
        (9, 1, 20, 0),
        ("e",) * 4,
        (9, 1, 20, 0),
        ("dark", "bright"),
        (15, 15),
        12,
        16,
    )

    def make_model(**changes: Any) -> Model:
        return build_model(
            "mlp", {"hidden": 16, "layers": 2}, InputSpec.image(8, 8, 3), unnamed(2), 0
        )

    torch.manual_seed(0)
    modules, state = method.modules(info, make_model), method.state(info)
    code, ids = torch.tensor(codes), torch.arange(n)
    loss = method.loss(
        modules,
        Batch(pictures(np.arange(n)), ids % 2, ids, code, code, step=5, progress=0.5),
        state,
    )
    loss.total.backward()
    assert all(torch.isfinite(value).all() or name in BY_GROUP for value in loss.state.values())
    return loss.total, [
        p.grad for module in modules.values() for p in module.parameters() if p.grad is not None
    ]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", [*BY_ENVIRONMENT, *BY_GROUP])
def test_environments_and_groups_of_none_or_one_row_give_numbers(name: str, pattern: str) -> None:
    """Fault 11, for whoever divides by the rows of a group or an environment. The gradient is not
    nothing: the rows still count."""
    total, slopes = _loss(name, PATTERNS[pattern])
    assert torch.isfinite(total) and len(slopes) > 3
    assert all(torch.isfinite(slope).all() for slope in slopes)
    if (
        pattern != "all of one" or name not in BY_GROUP
    ):  # its group 3 has no training row, and so no weight
        assert sum(float(slope.abs().sum()) for slope in slopes) > 0


# -- studies ---------------------------------------------------------------------------------------

STUDY: dict[str, Any] = {
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
        "SC": {"type": "spurious-correlation", "attribute": "ink"},
        "UDS": {"type": "unseen-data", "attribute": "size", "unseen": "large"},
        "both": ["SC", "UDS"],
    },
    "environments": ["ink", "size"],
    "models": ["small-cnn"],
    "seeds": 1,
}


def test_every_setting_is_stored_with_the_run_and_shifts_have_equal_sizes(tmp_path: Path) -> None:
    """Faults 8 and 9: a default that changes later does not change what a stored run says of
    itself; and the kind of shift is not mixed up with the number of rows unless that is asked for.
    """
    from crosswind.core.knobs import knobs_of
    from crosswind.training.settings import TrainingSettings

    methods = {
        name: {**PAIRED.get(name, {}), "models": ["mlp" if name == "lora" else "small-cnn"]}
        for name in FACTS
    }
    plan = make_plan(
        study_from({**STUDY, "models": ["small-cnn", "mlp"], "methods": methods}, name="faults")
    )
    with Store.open(tmp_path, create=True) as store:
        store.add_plan("faults", {}, plan.study.model_dump(), plan.jobs)
        rows = [row for row in store.runs("faults") if row["labels"]["shift"] == "none"]
        spec_of = {
            row["labels"]["method"]: store.run(store.run(row["key"])["needs"][0])["spec"]
            for row in rows
        }
    assert set(spec_of) == set(FACTS)
    for name, spec in spec_of.items():
        knobs = {knob.name: knob.default for knob in FACTS[name].knobs} | PAIRED.get(name, {})
        assert spec["method"] == {"name": name, "version": FACTS[name].version, "knobs": knobs}
        assert set(spec["training"]) == {knob.name for knob in knobs_of(TrainingSettings)}
        assert spec["model"]["name"] == ("mlp" if name == "lora" else "small-cnn") and spec[
            "split"
        ]["environments"] == [
            "ink",
            "size",
        ]
    sizes = {draw.shift: draw.train_rows for draw in plan.draws}
    assert set(sizes) == {"none", "SC", "UDS", "both"} and len(set(sizes.values())) == 1
    own_plan = make_plan(
        study_from({**STUDY, "sizes": {"all": "all"}, "methods": ["erm"]}, name="faults")
    )
    assert len({draw.train_rows for draw in own_plan.draws}) == 4
