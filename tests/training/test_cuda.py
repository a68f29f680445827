"""What must hold on a CUDA device: as on the processor, and that no step waits for it. Skipped
where there is none."""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contract.test_methods import NAMES, SETTINGS, made, tried
from tests.contract.test_transforms import NAMES as TRANSFORMS
from tests.contract.test_transforms import by_strength, keys_of, photographs
from tests.contract.test_transforms import made as made_transform
from tests.execution.test_whole_runs import JOB, finish, planned
from tests.training.world import dataset, run, same_weights, split

from crosswind.core.types import InputSpec
from crosswind.execution.engines.inline import Inline
from crosswind.execution.engines.pool import WorkerPool
from crosswind.methods.base import Batch, Loss, Method, Stage
from crosswind.methods.erm import ERM
from crosswind.training import cuda_graphs
from crosswind.training.batchnorm_folding import evaluated, folded
from crosswind.training.device import reproducible
from crosswind.training.identity import info_of
from crosswind.training.loader import EvaluationRows, TrainingRows
from crosswind.training.predicting import evaluation_mode
from crosswind.training.profiling import Profile
from crosswind.training.run_context import ContextRows, LoopContext
from crosswind.training.settings import ModelSpec, TrainingSettings

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_every_method_repeats_its_bits(name: str, precision: str) -> None:
    first, second = (tried(name, device="cuda", precision=precision) for _ in range(2))
    assert first.status == "finished" and first.cost["peak_memory_bytes"] > 0
    assert same_weights(first, second)
    for rule, sets in first.predictions.items():
        for key, predictions_of_set in sets.items():
            assert predictions_of_set.logits is not None and np.array_equal(
                predictions_of_set.logits, second.predictions[rule][key].logits
            )


@pytest.mark.parametrize("name", NAMES)
def test_every_method_learns_as_on_the_processor(name: str) -> None:
    """Float32 is float32: the losses of twelve steps agree to 1e-4, which arithmetic of 10 bits
    (TF32) does not."""
    on_cpu, on_cuda = (tried(name, device=device) for device in ("cpu", "cuda"))
    for ours, theirs in zip(on_cpu.history, on_cuda.history, strict=True):
        for key, value in ours["train"].items():
            assert theirs["train"][key] == pytest.approx(value, rel=1e-4, abs=1e-5), (
                ours["step"],
                key,
            )


@pytest.mark.parametrize("model", ["small-cnn", "resnet-w16", "resnet18", "vit-tiny"])
def test_every_model_repeats_its_bits(model: str) -> None:
    first, second = (run(ERM(), model=model, device="cuda") for _ in range(2))
    assert same_weights(first, second)


@pytest.mark.parametrize("model", ["small-cnn", "resnet-w16", "resnet18", "vit-tiny"])
def test_predictions_are_those_of_the_processor(model: str) -> None:
    trajectories = [
        run(ERM(), model=model, device=device, steps=1, validate_every=1, lr=1e-6)
        for device in ("cpu", "cuda")
    ]
    cpu_logits, cuda_logits = (
        trajectory.predictions["last"]["test"].logits for trajectory in trajectories
    )
    assert cpu_logits is not None and cuda_logits is not None
    assert np.abs(cpu_logits - cuda_logits).max() <= 1e-4 * max(1.0, np.abs(cpu_logits).max())


class StoppedTraining(Exception):
    """Raised in the middle of a run, as a signal would be."""


def stopping_at(step: int) -> Callable[[dict[str, Any]], None]:
    """Progress that stops the run at its first report at this step or later."""

    def progress(report: dict[str, Any]) -> None:
        if report["step"] >= step:
            raise StoppedTraining

    return progress


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_a_stopped_run_goes_on_with_the_same_bits(
    name: str, precision: str, tmp_path: Path
) -> None:
    uninterrupted = tried(name, device="cuda", precision=precision)
    checkpoint_path = tmp_path / "checkpoint"
    with pytest.raises(StoppedTraining):
        tried(
            name,
            device="cuda",
            precision=precision,
            checkpoint=checkpoint_path,
            progress=stopping_at(8),
        )
    assert same_weights(
        uninterrupted, tried(name, device="cuda", precision=precision, checkpoint=checkpoint_path)
    )


@contextmanager
def no_waiting() -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says that the mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def steps(name: str, method: Method, precision: str) -> int:
    """Three steps in which whatever makes the host wait for the device is an error; how many were
    taken."""
    knob_values = SETTINGS.get(name, {})
    settings = TrainingSettings(
        batch=16, steps=12, device="cuda", precision=precision, patience=None
    )
    sets, data = split(), dataset()
    images = {sets.train.source: data}
    info = info_of(sets, images, settings)
    rows = TrainingRows(
        sets.train, data, settings, 0, method.needs.sampler, method.views(), method.partners(info)
    )
    training = EvaluationRows(sets.train, data, settings, resident=False)
    model = ModelSpec(knob_values.get("model", "mlp"))
    context = LoopContext(method, info, model, settings, 0, ContextRows(rows, training), None)
    context.begin(Stage(), fresh=False)
    context.train()
    taken = 0
    for step in range(4):
        if step:  # the first one loads kernels, and makes handles and moments
            with no_waiting():
                context.batch = rows.batch(step, 12)
                method.update(context, context.batch)
            taken += 1
        else:
            context.batch = rows.batch(step, 12)
            method.update(context, context.batch)
    return taken


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_no_step_waits_for_the_device(name: str, precision: str) -> None:
    assert steps(name, made(name), precision) == 3


class HostReadingERM(ERM):
    """ERM that reads its loss at every step."""

    def loss(self, modules: dict, batch: Batch, state: dict) -> Loss:
        loss_terms = super().loss(modules, batch, state)
        if float(loss_terms.total.detach()) > 100:
            raise ValueError("the loss is too large")
        return loss_terms


def test_a_step_that_waits_is_found() -> None:
    with pytest.raises(RuntimeError, match="synchroniz"):
        steps("erm", HostReadingERM(), "fp32")


# name -> the most that a level may differ from the processor's, and the share that may: crops are
# rounded once there and not after each side (see `geometry.resized_crop`), and a jitter spreads
# what they differ by.
ROUNDED = {"flip-crop": (2, 0.25), "imagenet": (6, 0.25)}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_give_the_processor_s_bits(name: str) -> None:
    x = photographs(3, 31, 45)
    levels, share = ROUNDED.get(name, (0, 0.0))
    for transform in by_strength(name):
        on_cpu, on_cuda = transform(x, keys_of(7)), transform(x.cuda(), keys_of(7)).cpu()
        differing = (on_cpu != on_cuda).double().mean().item()
        largest_difference = int((on_cpu.int() - on_cuda.int()).abs().max())
        assert largest_difference <= levels and differing <= share, (
            f"{transform}: {differing:.2%} of the levels differ, by at most {largest_difference}"
        )


AUGMENTATIONS = (
    "imagenet",
    "flip-crop",
    "randaugment",
    "trivialaugment",
    "autoaugment",
    "augmix",
    "rotate",
    "translate",
    "shear",
)


@pytest.mark.parametrize("name", [*AUGMENTATIONS, "erase", "cutout"])
def test_augmentations_do_not_wait_for_the_device(name: str) -> None:
    x = torch.cat([photographs(3, 32, 32)] * 4).cuda()
    transform = made_transform(name)
    transform(x, keys_of(28))
    with no_waiting():
        transform(x, keys_of(28) + np.uint64(1))


@pytest.mark.parametrize("model", ["small-cnn", "resnet-w16", "resnet18"])
def test_folded_networks_say_the_same(model: str) -> None:
    from crosswind.models.build import build_model, unnamed

    network = (
        build_model(model, {}, InputSpec.image(32, 32, 3), unnamed(4), 0)
        .cuda()
        .to(memory_format=torch.channels_last)
    )
    x = torch.randn(64, 3, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)
    network.train()
    for _ in range(3):
        network(x)
    with evaluation_mode([network]):
        assert folded({"model": network})
        with reproducible(TrainingSettings(device="cuda")):
            plain = network(x)
            fused = evaluated({"model": network}, "fp32", lambda made: made["model"](x))
    assert (plain - fused).abs().max() <= 1e-4 * max(1.0, plain.abs().max().item())


def test_profile_shows_kernels() -> None:
    profile = Profile("cuda")
    run(ERM(), model="small-cnn", device="cuda", profile=profile)
    events = json.loads(gzip.decompress(profile.trace))["traceEvents"]
    assert sum(event.get("cat") == "kernel" for event in events) > 50 and profile.table


def test_several_runs_share_a_gpu(tmp_path: Path) -> None:
    """A study in this process, and on three workers at once: the same numbers."""
    plan = planned(
        models={"small": {"model": "small-cnn"}},
        training={"steps": 20, "batch": 32, "validate_every": 5, "device": "cuda"},
    )
    alone = finish(tmp_path / "alone", plan, Inline(JOB))
    together = finish(tmp_path / "together", plan, WorkerPool(JOB, 3))
    assert len(alone) == len(together) > 50 and alone == together


def graphed(
    name: str, method: Method | None = None, **changes: Any
) -> tuple[Any, list[cuda_graphs.Steps]]:
    """A run of 60 steps, and the steps of its stages."""
    made_steps: list[cuda_graphs.Steps] = []

    class Noted(cuda_graphs.Steps):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made_steps.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crosswind.training.run.Steps", Noted)
        trajectory = tried(
            name, method, **{"device": "cuda", "steps": 60, "validate_every": 20, **changes}
        )
    return trajectory, made_steps


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_graphs_change_no_number(
    name: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded, steps = graphed(name, precision=precision)
    monkeypatch.setenv(cuda_graphs.VARIABLE, "0")
    ordinary, recorded_steps = graphed(name, precision=precision)
    assert same_weights(recorded, ordinary) and not any(step.replayed for step in recorded_steps)
    assert [entry["train"] for entry in recorded.history] == [
        entry["train"] for entry in ordinary.history
    ]
    print(name, precision, [step.why or "replayed" for step in steps])
    assert any(step.replayed for step in steps) or {step.why for step in steps} <= {
        "the method reads the step",
        "too few steps are left",
    }


def test_which_methods_are_replayed() -> None:
    """Those whose loss is the same function at every step; dann and irm change theirs."""
    replayed_of = {name: any(step.replayed for step in graphed(name)[1]) for name in NAMES}
    assert {name for name, replayed in replayed_of.items() if replayed} >= {
        "erm",
        "deepcoral",
        "groupdro",
        "imagenet",
    }


@pytest.mark.parametrize("model", ["small-cnn", "resnet-w16", "vit-tiny"])
def test_a_stopped_run_that_is_replayed_goes_on_with_the_same_bits(
    model: str, tmp_path: Path
) -> None:
    uninterrupted, _ = graphed("groupdro", model=model, steps=80)
    checkpoint_path = tmp_path / "checkpoint"
    with pytest.raises(StoppedTraining):
        graphed(
            "groupdro",
            model=model,
            steps=80,
            checkpoint=checkpoint_path,
            progress=stopping_at(20),
        )
    again, steps = graphed("groupdro", model=model, steps=80, checkpoint=checkpoint_path)
    assert same_weights(uninterrupted, again) and steps[-1].replayed


class Drawing(ERM):
    """ERM whose loss is scaled by a number drawn on the host."""

    def loss(self, modules: dict, batch: Batch, state: dict) -> Loss:
        return Loss(super().loss(modules, batch, state).total * float(torch.rand(())))


class Counting(ERM):
    """ERM with a count that no batch tells of."""

    calls = 0

    def loss(self, modules: dict, batch: Batch, state: dict) -> Loss:
        type(self).calls += 1
        return Loss(super().loss(modules, batch, state).total * (1 + self.calls))


class Dropping(ERM):
    """ERM with noise drawn on the device."""

    def loss(self, modules: dict, batch: Batch, state: dict) -> Loss:
        noisy = batch.x + 0.1 * torch.randn_like(batch.x)
        return Loss(torch.nn.functional.cross_entropy(modules["model"](noisy), batch.y))


def test_what_cannot_be_replayed_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for method, why in (
        (Drawing(), "the method draws on the host"),
        (Counting(), "a replayed step differed"),
        (HostReadingERM(), "waits for the device"),
    ):
        _, (steps,) = graphed("erm", method)
        assert not steps.replayed and why in steps.why, (method, steps.why)
    monkeypatch.setattr(
        cuda_graphs.Steps, "_watched", cuda_graphs.Steps._ordinary
    )  # what it does not see is found when it is recorded
    _, (steps,) = graphed("erm", HostReadingERM())
    assert not steps.replayed and "Error" in steps.why
    recorded, (steps,) = graphed("erm", Dropping())
    assert steps.replayed
    monkeypatch.setenv(cuda_graphs.VARIABLE, "0")
    assert same_weights(recorded, graphed("erm", Dropping())[0])


class Late(ERM):
    """ERM whose weights are pulled to 0 from the fourth step on, by a part that has no gradient
    before."""

    calls = 0

    def modules(self, info: Any, make_model: Any) -> dict:
        return {**super().modules(info, make_model), "late": torch.nn.Linear(1, 1)}

    def loss(self, modules: dict, batch: Batch, state: dict) -> Loss:
        type(self).calls += 1
        loss_terms = super().loss(modules, batch, state)
        return (
            loss_terms
            if self.calls <= cuda_graphs.WARM_UP
            else Loss(loss_terms.total + modules["late"].weight.square().sum())
        )


def test_moments_made_in_a_recording_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Late, "calls", 0)
    recorded, (steps,) = graphed("erm", Late())
    assert not steps.replayed and "new parameters" in steps.why
    monkeypatch.setattr(Late, "calls", 0)
    monkeypatch.setenv(cuda_graphs.VARIABLE, "0")
    # The recording called the loss once more, when the late part was in already.
    assert same_weights(recorded, graphed("erm", Late())[0])
