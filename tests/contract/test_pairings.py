"""Every method under every pairing that may leave it nothing to do: refused, told of, or another
network than plain training's.

Each pairing is a study of real digits. Its plan must refuse a method or warn of it as is written
here; and so must a run on the same rows from Python, which has no plan. Whoever is neither refused
nor told of must differ from ERM on the same batches.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tests.studies.plans import whole_specs
from tests.training.world import QUICK

from crosswind.core.errors import CrosswindError, InputError, NeedsError
from crosswind.core.knobs import Limit, Needs
from crosswind.core.registry import Facts, listing, load
from crosswind.methods.base import Batch, Info, Loss, Method, Modules, State
from crosswind.methods.erm import ERM
from crosswind.shifts.split import Split, make_split
from crosswind.studies.build import build_dataset, build_split_plan
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.spec import study_from
from crosswind.testing.references import EnvironmentMean, OfPairs
from crosswind.training import requirements
from crosswind.training.identity import info_of, pairing_of
from crosswind.training.loop import Trajectory, fit
from crosswind.training.settings import ModelSpec, TrainingSettings

FACTS = {
    facts.name: facts
    for facts in listing("methods")
    if facts.module.startswith("crosswind.") and facts.name != "erm"
}
Which = Callable[[Needs], bool]


def nobody(needs: Needs) -> bool:
    return False


def everybody(needs: Needs) -> bool:
    return True


def even(needs: Needs) -> bool:
    return needs.sampler == "per-environment"


@dataclass(frozen=True)
class Pairing:
    """`changes` to the study below, `settings` of a method, whom it is tried on; who is `refused`
    or `told` of, in which words."""

    changes: dict[str, Any] = field(default_factory=dict)
    settings: Callable[[Facts], dict[str, Any]] = lambda facts: {}
    of: Callable[[Facts], bool] = lambda facts: True
    refused: Which = nobody
    told: Which = nobody
    words: str = ""


SIZES = {"type": "low-data-drift", "attribute": "size", "low": "large", "count": 1}
SC = {"type": "spurious-correlation", "attribute": "ink"}


def spread(facts: Facts) -> dict[str, Any]:
    return dict(facts.needs.spread) if facts.needs else {}


def no_spread(facts: Facts) -> dict[str, Any]:
    """Settings under which rows of one environment are not compared with each other; by default IRM
    compares them."""
    return {"estimate": "squared"} if facts.name == "irm" else {}


def has_spread(facts: Facts) -> bool:
    return bool(spread(facts))


def classed(needs: Needs) -> bool:
    return needs.environments or even(needs)


def paired(needs: Needs) -> bool:
    return bool(needs.pairs)


def switches(facts: Facts) -> bool:
    return bool(facts.needs and facts.needs.switches)


def at(step: int) -> Callable[[Facts], dict[str, Any]]:
    return lambda facts: dict.fromkeys(facts.needs.switches, step) if facts.needs else {}


def only(*values: str) -> dict[str, Any]:
    return {"type": "only", "attribute": "size", "values": list(values)}


def sets_of(**test: Any) -> dict[str, Any]:
    return {"validation": {"role": "validation", "law": "train"}, "test": {"role": "test", **test}}


PAIRINGS: dict[str, Pairing] = {
    "one environment": Pairing(
        {"shifts": {"one": only("small")}, "environments": ["size"]},
        refused=lambda needs: needs.environments,
        told=lambda needs: even(needs) and not needs.environments,
        words="(needs at least two environments|all training rows are of one)",
    ),
    "a single row of a value": Pairing(
        {"shifts": {"rare": SIZES}, "sizes": {"all": "all"}, "environments": ["size"]},
        told=lambda needs: even(needs) or needs.groups,
        words="single training row",
    ),
    "a value that training does not show": Pairing(
        {
            "shifts": {"UDS": {"type": "unseen-data", "attribute": "size", "unseen": "large"}},
            "environments": ["ink"],
        },
        told=lambda needs: needs.groups,
        words="cannot weigh groups that training does not show",
    ),
    "environments that are classes": Pairing(
        {"shifts": {"SC": {**SC, "counterexamples": 0.0}}, "environments": ["ink"]},
        refused=paired,
        told=classed,
        words=(
            "(aligning them erases the label|so there are few|finds no class with training rows"
            " both in environment 'ink=)"
        ),
    ),
    "environments of which one attribute is the class": Pairing(
        {"shifts": {"SC": {**SC, "counterexamples": 0.0}}, "environments": ["ink", "size"]},
        told=classed,
        words="(aligning them erases the label|so there are few)",
    ),
    "groups that are classes": Pairing(
        {
            "shifts": {"SC": {**SC, "counterexamples": 0.0}},
            "environments": ["size"],
            "groups": ["ink"],
        },
        told=lambda needs: needs.groups,
        words="so it weighs classes",
    ),
    "images in two environments, where no attribute is drawn at visits": Pairing(
        settings=lambda facts: {"pairs": "view"},
        of=lambda facts: bool(facts.needs and facts.needs.pairs),
        refused=everybody,
        words=(
            "shows an image in two environments at pairs = view, so one of 'environments' must be"
            " an attribute that is derived"
        ),
    ),
    "an environment that there is not": Pairing(
        settings=lambda facts: {"pairs": "class", "aligned": ["huge"]},
        of=lambda facts: bool(facts.needs and facts.needs.pairs),
        refused=everybody,
        words=r"aligned: unknown environment 'huge'.*size=medium",
    ),
    "more environments than a batch has rows": Pairing(
        {"environments": ["ink", "size"], "batch": 8},
        refused=even,
        words="each of the 9 environments",
    ),
    "a row of each environment in a batch": Pairing(
        {"environments": ["ink", "size"], "batch": 9},
        settings=no_spread,
        told=lambda needs: needs.environments and bool(needs.spread),
        words="a single row of some of the 9",
    ),
    "rows of an environment compared, of which a batch has one": Pairing(
        {"environments": ["ink", "size"], "batch": 17},
        settings=spread,
        of=has_spread,
        refused=lambda needs: needs.environments,
        words="two of each of the 9, and training.batch is 17",
    ),
    "rows compared in batches of 3": Pairing(
        {"batch": 3, "environments": ["size"]},
        settings=spread,
        of=has_spread,
        refused=everybody,
        words="(two of each of the 3|at least 4 rows at .*), and training.batch is 3",
    ),
    "rows of an environment compared, which has one": Pairing(
        {
            "shifts": {"rare": [only("small", "large"), SIZES]},
            "sizes": {"all": "all"},
            "environments": ["size"],
        },
        settings=spread,
        of=has_spread,
        refused=lambda needs: needs.environments,
        told=lambda needs: not needs.environments,
        words="(1 of the 2 has them|1 of 2 environments with a single training row)",
    ),
    "batches of one row": Pairing(
        {"batch": 1, "shifts": {"one": only("small", "medium")}, "environments": ["size"]},
        refused=lambda needs: even(needs) or needs.rows > 1,
        words="(batches of at least 2 rows|each of the 2 environments)",
    ),
    "a switch at the end": Pairing(
        settings=at(4),
        of=switches,
        refused=everybody,
        words="step 4 lies beyond the run's last step, 3",
    ),
    "a switch beyond the epochs": Pairing(
        {"training": {"epochs": 0.3, "steps": 1000}},
        settings=at(500),
        of=switches,
        refused=everybody,
        words="lies beyond",
    ),
    "a sampler by the test law": Pairing(
        {"sampler": "reweight"},
        told=lambda needs: even(needs) or needs.sampler == "balanced",
        words="only among the rows of each",
    ),
    "a sampler that leaves a value out": Pairing(
        {"sampler": "reweight", "groups": ["size"], "sets": sets_of(law=only("small", "medium"))},
        refused=even,
        told=lambda needs: needs.groups,
        words="the sampler reweight never draws a row",
    ),
    "a sampler by groups": Pairing(
        {"sampler": "balanced"}, told=even, words="only among the rows of each"
    ),
    "its limit": Pairing(
        settings=lambda facts: dict(facts.limit.knobs) if facts.limit else {},
        of=lambda facts: bool(facts.limit and facts.limit.equals),
        told=everybody,
        words=r"is erm|this run is ERM",
    ),
    "an operation that does nothing": Pairing(
        settings=lambda facts: {"operations": "rotate", "magnitude": 0},
        of=lambda facts: facts.name == "randaugment",
        told=everybody,
        words=r"is erm at operations = rotate, magnitude = 0|this run is ERM",
    ),
    "no batch norm and no maps": Pairing(
        {"models": ["mlp"]},
        refused=lambda needs: needs.norm == "batch" or needs.maps,
        words="(batch norm|feature maps)",
    ),
    "a test lot of one row": Pairing(
        {"sets": sets_of(draw={"total": 1})},
        told=lambda needs: bool(needs.adapts),
        words="which is a single test row",
    ),
    "an attribute that there is not": Pairing(
        settings=lambda facts: {"attribute": "tynt"},
        of=lambda facts: bool(facts.needs and facts.needs.adapts),
        refused=everybody,
        words="unknown attribute .*'tynt'",
    ),
}
STUDY: dict[str, Any] = {
    "data": {
        "digits": {
            "source": "digits",
            "options": {"size": 16},
            "label": "digit",
            "attributes": ["ink", "size"],
            "roles": {"test": 2, "validation": 0.1},
        }
    },
    "shifts": {"SC": {**SC, "counterexamples": 0.3}},
    "sizes": {"equal": {"total": 150}},
    "environments": ["size"],
    "models": ["mlp"],
    "seeds": 1,
}
TRAINING = {
    "steps": 4,
    "batch": 30,
    "validate_every": 2,
    "precision": "fp64",
    "evaluation_batch": 64,
}


def settings_of(pairing: Pairing, facts: Facts) -> dict[str, Any]:
    """The method's settings under a pairing; a switch comes at step 2 unless the pairing is about
    switches."""
    own_settings = pairing.settings(facts)
    return {
        **QUICK.get(facts.name, {}),
        **(own_settings if pairing.changes.get("training") or own_settings else at(2)(facts)),
    }


def planned(pairing: Pairing, methods: dict[str, Any], batch_norm: bool = False) -> Plan:
    changes = dict(pairing.changes)
    training = {**TRAINING, **changes.pop("training", {}), "batch": changes.pop("batch", 30)}
    linear = [
        name
        for name, facts in FACTS.items()
        if batch_norm and name in methods and facts.needs and facts.needs.linear
    ]
    if (
        "models" not in changes and linear
    ):  # what changes linear layers is tried on a network that has them
        methods = {
            name: {**facts, "models": ["mlp" if name in linear else "small-cnn"]}
            for name, facts in methods.items()
        }
    models = changes.pop(
        "models",
        (["small-cnn"] if batch_norm else []) + (["mlp"] if linear or not batch_norm else []),
    )
    return make_plan(
        study_from(
            {**STUDY, **changes, "methods": methods, "models": models, "training": training},
            name="pairings",
        )
    )


def convolutional(facts: Facts) -> bool:
    return bool(facts.needs and (facts.needs.norm == "batch" or facts.needs.maps))


CASES = [
    (name, method)
    for name, pairing in PAIRINGS.items()
    for method, facts in FACTS.items()
    if pairing.of(facts)
]


def test_the_sweep_finds_the_methods_and_pairings() -> None:
    assert len(FACTS) >= 15 and {
        "irm",
        "sagnet",
        "jtt",
        "bn-adapt",
        "groupdro",
        "causirl-mmd",
    } <= set(FACTS)
    general_pairings = [
        pairing
        for pairing in PAIRINGS.values()
        if all(pairing.of(facts) for facts in FACTS.values())
    ]
    assert len(PAIRINGS) >= 20 and len(general_pairings) >= 12
    assert len(CASES) >= len(general_pairings) * len(FACTS) + 25
    third = [case for case in CASES if of_third(*case)]
    assert len(CASES) / 4 < len(third) < len(CASES) / 2
    assert {method for _, method in third} == set(FACTS)
    assert {name for name, _ in third} >= {
        name for name, pairing in PAIRINGS.items() if pairing in general_pairings
    }


@pytest.mark.parametrize("name", PAIRINGS)
def test_plan_refuses_or_warns_in_a_sentence(name: str) -> None:
    pairing = PAIRINGS[name]
    reached = 0
    settings_kept: dict[str, Any] = {}
    for method, facts in FACTS.items():
        if not pairing.of(facts):
            continue
        assert facts.needs is not None
        settings = settings_of(pairing, facts)
        if not pairing.refused(facts.needs):
            settings_kept[method] = settings
            continue
        with pytest.raises(
            (NeedsError, InputError), match=rf"^methods\.{method}.*{pairing.words}"
        ) as error:
            planned(pairing, {"erm": {}, method: settings}, batch_norm=True)
        assert "\n" not in str(error.value)
        reached += 1
    warnings = planned(pairing, {"erm": {}, **settings_kept}, batch_norm=True).warnings
    for method in settings_kept:
        is_told = any(
            f": {method} " in text and re.search(words_of(pairing, FACTS[method]), text)
            for text in warnings
        )
        assert is_told == pairing.told(FACTS[method].needs), (method, warnings)  # type: ignore[arg-type]
        reached += is_told
    assert reached > 0


def words_of(pairing: Pairing, facts: Facts) -> str:
    """What is said of a method; at its limit it is that of its own."""
    return pairing.words.replace("is erm", f"is {facts.limit.equals}" if facts.limit else "")


@cache
def drawn(name: str, batch_norm: bool) -> tuple[Split, dict[str, Any], ModelSpec, TrainingSettings]:
    """The rows of a pairing, as any run on them sees them."""
    (spec,) = whole_specs(planned(PAIRINGS[name], {"erm": {}}, batch_norm))
    data = {key: build_dataset(values) for key, values in spec["data"].items()}
    split = make_split(data, spec["main"], build_split_plan(spec["split"]), 0)
    knobs = {"hidden": 16, "layers": 2} if spec["model"]["name"] == "mlp" else {}
    return (
        split,
        data,
        ModelSpec(spec["model"]["name"], knobs),
        TrainingSettings(**spec["training"]),
    )


@dataclass(frozen=True)
class GroupMean(Method):
    """The mean over groups with training rows of each one's mean loss, by a plain loop."""

    registered_name = "erm-group-mean"
    limit = Limit.none("a reference")

    def state(self, info: Info) -> State:
        return {"rows": torch.tensor(info.group_counts)}

    def loss(self, modules: Modules, batch: Batch, state: State) -> Loss:
        logits = modules["model"](batch.x)
        group_losses = [
            torch.nn.functional.cross_entropy(logits[batch.group == g], batch.y[batch.group == g])
            for g in batch.group.unique()
        ]
        return Loss(torch.stack(group_losses).sum() / int((state["rows"] > 0).sum()))


@cache
def reference(
    name: str, equals: str, sampler: str, batch_norm: bool, base: Method | None = None
) -> Trajectory:
    """What the method would silently be: ERM, or the mean that its limit names, on the same
    batches; of pairs by `base`."""
    means = {
        "erm-group-mean": GroupMean,
        "erm-environment-mean": EnvironmentMean,
        "erm-of-pairs": OfPairs,
    }
    parent: Any = means.get(equals, ERM)
    attributes = {
        "needs": replace(parent.needs, sampler=sampler),
        "base": base,
        "registered_name": f"the reference {equals or 'erm'}",
        "__doc__": "A reference.",
    }
    cls = type("Reference", (parent,), attributes)
    split, data, model, training = drawn(name, batch_norm)
    return fit(cls(), split, data, model, training, 0)


def apart(left: Trajectory, right: Trajectory) -> float:
    left_weights, two = left.weights("last"), right.weights("last")
    # The networks of a method may be its own.
    differences = [
        float((left_weights[key] - two[key]).abs().max())
        for key in two
        if key.startswith("model.") and key in left_weights
    ]
    logits = [trained.predictions["last"]["test"].logits for trained in (left, right)]
    return max([*differences, float(np.abs(logits[0] - logits[1]).max())])  # type: ignore[operator]


def of_third(name: str, method: str) -> bool:
    """Whether a case is of the third that trains by default: every method and every pairing that
    many have is in it, since both go round."""
    return (list(PAIRINGS).index(name) + list(FACTS).index(method)) % 3 == 0


@pytest.mark.parametrize(
    ("name", "method"),
    [
        pytest.param(*case, marks=pytest.mark.slow if of_third(*case) else pytest.mark.verify)
        for case in CASES
    ],
)
def test_run_is_refused_or_told_of_or_is_not_erm(name: str, method: str) -> None:
    pairing, facts = PAIRINGS[name], FACTS[method]
    assert facts.needs is not None and facts.limit is not None
    method_object: Method = load("methods", method)(**settings_of(pairing, facts))
    split, data, model, training = drawn(name, convolutional(facts))
    if pairing.refused(facts.needs):
        with pytest.raises((NeedsError, InputError)) as error:
            fit(method_object, split, data, model, training, 0)
        assert (
            isinstance(error.value, CrosswindError)
            and "\n" not in str(error.value)
            and len(str(error.value)) > 40
        )
        return
    trajectory = fit(method_object, split, data, model, training, 0)
    if pairing.told(facts.needs):
        assert any(re.search(words_of(pairing, facts), text) for text in trajectory.warnings), (
            trajectory.warnings
        )
    else:
        base = method_object if facts.needs.pairs else None
        plain = reference(name, facts.limit.equals, facts.needs.sampler, convolutional(facts), base)
        assert apart(trajectory, plain) > 1e-6, "silently another method"


ALSO = [
    (name, dict(zip(knobs, values, strict=True)))
    for name, facts in FACTS.items()
    for knobs in (facts.limit.also if facts.limit else ())
    for values in itertools.product(*knobs.values())
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "settings"),
    ALSO,
    ids=[f"{name}-{'-'.join(map(str, settings_at.values()))}" for name, settings_at in ALSO],
)
def test_where_a_plan_says_that_a_method_is_another_one_it_is(
    method: str, settings: dict[str, Any]
) -> None:
    """Places of a limit beside the one that the contract's twin looks at; one step beyond them is
    another network."""
    facts = FACTS[method]
    assert facts.needs is not None and facts.limit is not None and len(ALSO) >= 14
    plain = reference("its limit", facts.limit.equals, facts.needs.sampler, convolutional(facts))
    split, data, model, training = drawn("its limit", convolutional(facts))
    method_object: Method = load("methods", method)(**settings)
    assert apart(fit(method_object, split, data, model, training, 0), plain) < 1e-10
    if "magnitude" in settings:
        beyond: Method = load("methods", method)(**{**settings, "magnitude": 9})
        assert apart(fit(beyond, split, data, model, training, 0), plain) > 1e-6


@pytest.mark.parametrize("name", PAIRINGS)
def test_a_plan_and_a_run_describe_the_same_pairing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan counts and a run looks at its rows: what the rules read of both is the same."""
    pairings_seen: list[requirements.Pairing] = []
    monkeypatch.setattr(
        "crosswind.studies.plan_warnings.refuse",
        lambda pairing, where, path: pairings_seen.append(pairing),
    )
    planned(PAIRINGS[name], {"erm": {}})
    split, data, model, training = drawn(name, False)
    run = pairing_of(ERM(), split, info_of(split, data, training), model)

    def facts(pairing: requirements.Pairing) -> list[Any]:
        tied = ((pairing.group_table > 0).sum(axis=1) <= 1).all()
        rows = [
            sorted(count for count in counts if count > 0)
            for counts in (pairing.environment_rows, pairing.group_rows)
        ]
        undrawn = sorted(pairing.undrawn_environments), len(pairing.undrawn_groups)
        return [
            pairing.batch,
            pairing.steps,
            pairing.sampler,
            pairing.environments_are_classes,
            tied,
            *rows,
            *undrawn,
        ]

    assert facts(pairings_seen[0]) == facts(run)
