"""The checks can fail: wrong plug-ins, as somebody else would write them, are each refused by the
check that is for it, in one sentence with a remedy."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crosswind import testing
from crosswind.core import registry
from crosswind.testing import CheckFailed

HEAD = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from crosswind.core.knobs import Access, Form, Limit, Needs, knob, linear, log
from crosswind.core.registry import register
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.sources.base import Source
from crosswind.estimators.base import Estimate, Estimator, Joint, Measure
from crosswind.methods.base import Loss, Method, Output
from crosswind.models.build import Backbone, Model
from crosswind.shifts.base import NormalForm, Shift
from crosswind.transforms.base import Transform
from crosswind.transforms.draws import uniforms


"""

METHOD = '''
@register("mine", kind="method")
@dataclass(frozen=True)
class Mine(Method):
    """The mean loss, by a factor.

    Objective: the factor times the mean.
    """

    factor: float = knob(2.0, domain="(0, inf)", search=log(0.5, 2), doc="what the loss is times")
    needs = Needs()
    limit = Limit({"factor": 1.0})

    def loss(self, modules, batch, state):
        losses = torch.nn.functional.cross_entropy(modules["model"](batch.x), batch.y)
        return Loss(self.factor * losses)
'''
ESTIMATOR = '''
@register("mine", kind="estimator")
@dataclass(frozen=True)
class Mine(Estimator):
    """Mean confidence, moved by the error on the source."""

    access = Access()

    def fit(self, source):
        return source.accuracy - float(source.answers.confidence.mean())

    def estimate(self, fitted, target):
        return float(np.clip(target.confidence.mean() + fitted, 0, 1))
'''
SOURCE = '''
@register("mine", kind="source")
@dataclass(frozen=True)
class Mine(Source):
    """Noise in two classes."""

    seed: int = knob(0, domain="[0, inf)", doc="seed of the noise")

    def load(self):
        codes = np.arange(40)[None] % 2
        table = AttributeTable((Attribute("class", ("dark", "bright")),), codes)
        noise = np.random.default_rng(self.seed).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
        fingerprint = f"mine-{self.seed}"
        return AttributedDataset(
            "mine", table, lambda rows: noise[rows], InputSpec.image(8, 8, 3), fingerprint=fingerprint
        )
'''
MODEL = '''
class Flat(torch.nn.Module):
    def forward(self, x):
        return x.flatten(1)


@register("mine", kind="model")
@dataclass(frozen=True)
class Mine(Backbone):
    """One hidden layer."""

    hidden: int = knob(8, domain="[1, inf)", doc="units")
    built = Form(norm="none", maps=False)

    def build(self, input, class_names):
        n_inputs = int(np.prod(input.tensor_shape))
        children = {
            "flat": Flat(),
            "hidden": torch.nn.Linear(n_inputs, self.hidden),
            "act": torch.nn.ReLU(),
            "head": torch.nn.Linear(self.hidden, len(class_names)),
        }
        stages = {"hidden": ("flat", "hidden", "act")}
        return Model(children, stages=stages, pool=(), head="head", width=self.hidden)
'''
SHIFT = '''
@register("mine", kind="shift")
@dataclass(frozen=True)
class Mine(Shift):
    """Later values of an attribute are rarer."""

    attribute: str = knob(doc="whose later values are rarer")
    factor: float = knob(0.5, domain="(0, 1]", doc="how much rarer")

    def normal_form(self, cells, field="shift"):
        axis = cells.axis(self.attribute, f"{field}.attribute")
        weights = self.factor ** np.arange(cells.shape[axis])
        return NormalForm(cells.shape, (cells.along([axis], weights),))

    def attributes(self):
        return (self.attribute,)
'''
TRANSFORM = '''
@register("mine", kind="transform")
@dataclass(frozen=True)
class Mine(Transform):
    """Moves the levels."""

    levels: int = knob(40, domain="[0, 255]", doc="how far")
    strengths = ("levels", (10, 200))

    def apply(self, x, keys):
        moved = x + (self.levels * uniforms(keys, 1)).round().view(-1, 1, 1, 1)
        return moved.clamp(0, 255).to(x.dtype)
'''
KINDS = {
    "method": METHOD,
    "estimator": ESTIMATOR,
    "source": SOURCE,
    "model": MODEL,
    "shift": SHIFT,
    "transform": TRANSFORM,
}

# (kind, check that must fail, what stands in the right plug-in, what is wrong in its place)
DOC = METHOD[METHOD.index('"""') : METHOD.rindex('"""') + 3]
PREDICT = """    def predict(self, modules, x, state):
        return Output(logits=modules["model"](x) - x.mean())

"""
WRONG = [
    ('method', 'loss-depends-on-the-inputs',
     'modules["model"](batch.x)',
     'modules["model"](batch.x * 0)'),
    ("method", "loss-depends-on-the-labels", "batch.y)", "batch.y * 0)"),
    ('method', 'loss-is-a-finite-number-with-a-gradient',
     'self.factor * losses)',
     'losses.detach())'),
    ('method', 'loss-is-a-finite-number-with-a-gradient',
     'self.factor * losses)',
     'losses.log() * 0 + (losses * 0).log())'),
    ('method', 'loss-does-not-depend-on-the-order-of-rows',
     'self.factor * losses)',
     "losses + modules['model'](batch.x)[0, 0])"),
    ('method', 'loss-leaves-its-batch-as-it-was',
     'return Loss(',
     'batch.x.zero_()\n        return Loss('),
    ('method', 'reads-only-what-it-declares',
     'self.factor * losses)',
     'losses + batch.environment.double().mean())'),
    ("method", "equals-what-it-names-at-its-limit", '{"factor": 1.0}', '{"factor": 0.9}'),
    ("method", "equals-what-it-names-at-its-limit", "self.factor * losses)", "losses)"),
    ("method", "same-seed-same-bits", "self.factor * losses)", "losses * np.random.rand())"),
    ("method", "predict-answers-each-row-by-itself", "    def loss(", PREDICT + "    def loss("),
    ('method', 'is-a-frozen-dataclass-of-knobs',
     '    needs = Needs()',
     '    plain: int = 3\n    needs = Needs()'),
    ("method", "is-a-frozen-dataclass-of-knobs", "(frozen=True)", "()"),
    ("method", "defaults-and-searches-lie-in-the-domains", "knob(2.0", "knob(-2.0"),
    ("method", "says-what-it-is", DOC, "pass"),
    ('method', 'is-read-without-an-import',
     'limit = Limit({"factor": 1.0})',
     'limit = Limit(dict(factor=1.0))'),
    ('estimator', 'is-a-number-in-its-range',
     'float(np.clip(target.confidence.mean() + fitted, 0, 1))',
     '100 * float(target.confidence.mean())'),
    ('estimator', 'rises-with-accuracy',
     'target.confidence.mean() + fitted',
     '1 - target.confidence.mean()'),
    ("estimator", "rises-with-accuracy", "np.clip(target.confidence.mean() + fitted, 0, 1)", "0.5"),
    ('estimator', 'does-not-depend-on-the-order-of-rows',
     'target.confidence.mean()',
     'target.confidence[:20].mean()'),
    ('estimator', 'equal-answers-give-equal-estimates',
     'target.confidence.mean()',
     'target.confidence.mean() * np.random.rand()'),
    ('estimator', 'leaves-the-answers-as-they-were',
     'return float(np',
     'target.answer[:] = 0\n        return float(np'),
    ('estimator', 'odd-answers-end-in-a-number',
     'return float(np',
     'target.confidence[4]\n        return float(np'),
    ("estimator", "is-a-number-in-its-range", "float(np.clip", "str(np.clip"),
    ("source", "codes-are-whole-numbers-of-named-values", "% 2", "% 3"),
    ('source', 'codes-are-whole-numbers-of-named-values',
     'np.arange(40)[None] % 2',
     'np.arange(40.0)[None] % 2'),
    ("source", "inputs-are-as-they-are-declared", "noise[rows]", "noise[rows] / 255.0"),
    ("source", "inputs-are-as-they-are-declared", "(8, 8, 3), fing", "(9, 9, 3), fing"),
    ("source", "an-input-depends-on-its-row-alone", "noise[rows]", "noise[: len(rows)]"),
    ('source', 'inputs-may-be-written-into',
     'lambda rows: noise[rows]',
     'lambda rows: KEPT.setdefault(rows.tobytes(), noise[rows])'),
    ("source", "loading-again-gives-the-same", "default_rng(self.seed)", "default_rng()"),
    ("source", "other-rows-have-another-fingerprint", 'f"mine-{self.seed}"', '"mine"'),
    ('source', 'a-wrong-setting-is-refused',
     '    def load(',
     '    def __post_init__(self):\n        pass\n\n    def load('),
    ("model", "reads-its-input", "x.flatten(1)", "x.flatten(1) * 0"),
    ("model", "answers-each-row-by-itself", "x.flatten(1)", "x.flatten(1) - x.flatten(1).mean(0)"),
    ("model", "gives-a-logit-for-each-class", "len(class_names))", "2)"),
    ('model', 'evaluation-changes-nothing',
     'x.flatten(1)',
     'x.flatten(1) + torch.rand(x.shape).flatten(1)'),
    ('model', 'every-parameter-learns',
     '"act": torch.nn.ReLU(),',
     '"act": torch.nn.ReLU(),\n            "unused": torch.nn.Linear(2, 2),'),
    ("model", "stages-features-and-head-make-the-model", "width=self.hidden", "width=3"),
    ('model', 'weights-come-from-the-seed',
     '        n_inputs',
     '        torch.manual_seed(0)\n        n_inputs'),
    ("model", "learns-a-few-rows", '"head": torch.nn.Linear(self.hidden, len(class_names))',
     '"head": torch.nn.Sequential(torch.nn.Linear(8, 3), torch.nn.Hardtanh(5, 5.1))'),
    ("model", "is-made-of-what-it-declares", 'norm="none"', 'norm="batch"'),
    ("shift", "gives-weights-on-the-cells", "cells.along([axis], weights)", "weights"),
    ("shift", "gives-weights-on-the-cells", "weights),))", "weights - 0.2),))"),
    ("shift", "gives-weights-on-the-cells", "weights),))", "weights * 0),))"),
    ("shift", "gives-weights-on-the-cells", "return NormalForm(cells.shape, ", "return ("),
    ("shift", "names-its-attributes", "return (self.attribute,)", "return self.attribute"),
    ("shift", "names-its-attributes", "return (self.attribute,)", "return ('ink',)"),
    ("shift", "weighs-by-class-and-its-attributes-alone",
     "return (self.attribute,)", "return ()"),
    ("shift", "changes-the-weights", "self.factor ** np.ar", "1.0 ** np.ar"),
    ("shift", "finds-attributes-by-name",
     'cells.axis(self.attribute, f"{field}.attribute")', "1"),
    ("shift", "an-unknown-attribute-is-refused",
     'cells.axis(self.attribute, f"{field}.attribute")',
     "cells.names.index(self.attribute) if self.attribute in cells.names else 1"),
    ("shift", "an-unknown-attribute-is-refused", 'f"{field}.attribute"', '"attribute"'),
    ("shift", "a-wrong-setting-is-refused", "factor: float =", "factor: object ="),
    ("shift", "is-read-back-from-its-description",
     "    def attributes(",
     '    def describe(self):\n        return {"type": "mine", "attribute": self.attribute,'
     ' "factor": 0.3}\n\n    def attributes('),
    ("shift", "the-same-again", "self.factor ** np.ar", "np.random.rand() ** np.ar"),
    ("transform", "gives-inputs-of-its-kind", ".to(x.dtype)", ""),
    ("transform", "gives-inputs-of-its-kind", "return moved", "return moved[:, :, 1:]"),
    ("transform", "changes-something", "self.levels * ", "0 * "),
    ("transform", "a-row-is-changed-by-its-key-alone", "moved = x", "moved = x.float().mean()"),
    ("transform", "the-same-again-whatever-else-is-drawn",
     "uniforms(keys, 1)", "torch.rand(len(x), 1)"),
    ("transform", "the-same-again-whatever-else-is-drawn",
     "        moved", "        torch.rand(1)\n        moved"),
    ("transform", "draws-differ-with-the-key-as-it-declares",
     "uniforms(keys, 1)", "torch.ones(len(x), 1)"),
    ("transform", "draws-differ-with-the-key-as-it-declares",
     "    strengths", "    random = False\n    strengths"),
    ("transform", "leaves-its-inputs-as-they-were",
     "        moved", "        x[:] = 0\n        moved"),
    ("transform", "strengths-are-settings-of-its-own", "(10, 200)", "(10, 300)"),
    ("transform", "strengths-are-settings-of-its-own", '("levels", (', '("level", ('),
    ("transform", "a-wrong-setting-is-refused",
     "    def apply(", "    def __post_init__(self):\n        pass\n\n    def apply("),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for room in ("methods", "estimators", "sources", "models", "shifts", "transforms"):
        registry.forget(room, "mine")
    sys.modules.pop("mine", None)


def plug_in(folder: Path, text: str) -> Any:
    """The class `Mine` of a file of somebody else."""
    path = folder / "mine.py"
    path.write_text(HEAD + "KEPT = {}\n\n" + text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("mine", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mine"] = module
    spec.loader.exec_module(module)
    return module.Mine


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_plug_in_passes_every_check(kind: str, folder: Path) -> None:
    getattr(testing, f"check_{kind}")(plug_in(folder, KINDS[kind]))


@pytest.mark.parametrize(("kind", "check", "right", "wrong"), WRONG)
def test_a_wrong_plug_in_is_refused_in_one_sentence(
    kind: str, check: str, right: str, wrong: str, folder: Path
) -> None:
    assert right in KINDS[kind]
    cls = plug_in(folder, KINDS[kind].replace(right, wrong, 1))
    checks = {one.name: one for one in getattr(testing, f"{kind}_checks")(cls)}
    with pytest.raises(CheckFailed, match=f"^Mine fails the check '{check}': ") as failure:
        checks[check]()
    sentence = str(failure.value)
    assert "\n" not in sentence and "; " in sentence, sentence


def test_every_check_of_a_kind_has_a_wrong_plug_in_of_its_own_or_is_of_the_framework() -> None:
    of_kinds = {kind: {check for other, check, *_ in WRONG if other == kind} for kind in KINDS}
    assert all(len(checks) >= 5 for checks in of_kinds.values())


@pytest.mark.slow
def test_all_failures_are_told_at_once_and_a_skipped_one_is_not(folder: Path) -> None:
    wrong = METHOD.replace("batch.y)", "batch.y * 0)").replace("(batch.x)", "(batch.x * 0)")
    cls = plug_in(folder, wrong)
    with pytest.raises(CheckFailed) as failure:
        testing.check_method(cls, skip={"loss-depends-on-the-labels": "it clusters"})
    lines = str(failure.value).splitlines()
    assert any("'loss-depends-on-the-inputs'" in line for line in lines)
    assert not any("'loss-depends-on-the-labels'" in line for line in lines)
    with pytest.raises(CheckFailed, match="there is no check 'loss' to skip; there are is-reg"):
        testing.check_method(cls, skip={"loss": "a slip"})


def test_the_exception_of_a_plug_in_is_named_with_its_line(folder: Path) -> None:
    cls = plug_in(folder, METHOD.replace("batch.y)", "batch.labels)"))
    check = next(one for one in testing.method_checks(cls) if one.name.startswith("same-seed"))
    with pytest.raises(CheckFailed, match=r"it raises AttributeError: .*; see mine\.py, line \d+$"):
        check()


def test_what_is_no_class_of_the_kind_is_refused(folder: Path) -> None:
    cls = plug_in(folder, METHOD)
    with pytest.raises(CheckFailed, match="derive it from crosswind.estimators.base.Estimator"):
        testing.estimator_checks(cls)[0]()
    unregistered = METHOD.replace('@register("mine", kind="method")\n', "")
    with pytest.raises(CheckFailed, match="it is not registered; put @register"):
        testing.method_checks(plug_in(folder, unregistered))[0]()


@pytest.mark.slow
def test_it_needs_no_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; import crosswind.testing"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
