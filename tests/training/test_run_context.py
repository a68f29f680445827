"""The loop's optimisers step as torch's own, and no run imports the compiler."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from crosswind.methods.base import Batch, OptimiserSpec
from crosswind.training.run_context import Optimiser
from crosswind.training.settings import TrainingSettings

BATCH = Batch(torch.zeros(1), torch.zeros(1), torch.zeros(1), torch.zeros(1))
MADE = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


def networks() -> tuple[nn.Module, nn.Module]:
    """Two equal ones, in channels-last memory, with a part whose gradient is there from the third
    step on."""
    torch.manual_seed(0)
    first = nn.ModuleDict(
        {
            "body": nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(288, 4)),
            "late": nn.Linear(4, 4),
        }
    )
    second = nn.ModuleDict(
        {
            "body": nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(288, 4)),
            "late": nn.Linear(4, 4),
        }
    )
    second.load_state_dict(first.state_dict())
    return first.to(memory_format=torch.channels_last), second.to(memory_format=torch.channels_last)


def loss_of(net: nn.Module, x: torch.Tensor, late: bool) -> torch.Tensor:
    out = net["body"](x)
    return (net["late"](out) if late else out).square().mean()


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("adam", {"lr": 0.01}),
        ("adam", {"lr": 0.01, "weight_decay": 0.1}),
        ("adamw", {"lr": 0.01, "weight_decay": 0.1}),
        ("sgd", {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1}),
        ("sgd", {"lr": 0.01}),
    ],
)
def test_steps_are_those_of_torch(kind: str, settings: dict[str, float]) -> None:
    """Bit by bit over eight steps, a schedule and a parameter without gradient at first included;
    saved and taken back midway."""
    ours, theirs = networks()
    spec = OptimiserSpec(list(ours.parameters()), schedule=lambda step, epoch: 0.5**step)
    mine = Optimiser(spec, TrainingSettings(optimiser=kind, **settings), alone=True)
    fused = {} if kind == "sgd" else {"fused": True}
    torch_optimiser = MADE[kind](theirs.parameters(), **settings, **fused)
    x = torch.randn(5, 3, 8, 8).to(memory_format=torch.channels_last)
    for step in range(8):
        if step == 5:
            saved = {key: value.clone() for key, value in mine.save().items()}
            mine = Optimiser(spec, TrainingSettings(optimiser=kind, **settings), alone=True)
            mine.restore(saved)
        mine.step(loss_of(ours, x, step >= 3), Batch(**{**vars(BATCH), "step": step}))
        torch_optimiser.param_groups[0]["lr"] = settings["lr"] * 0.5**step
        torch_optimiser.zero_grad()
        loss_of(theirs, x, step >= 3).backward()
        torch_optimiser.step()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b), step


@pytest.mark.slow
def test_a_run_imports_no_compiler() -> None:
    """torch's optimiser classes and its switch for determinism would, at two seconds of every
    worker."""
    code = (
        "import sys, tests.training.world as world; from crosswind.methods.erm import ERM\n"
        "for kind in ('adam', 'sgd'): world.run(ERM(), optimiser=kind, model='small-cnn')\n"
        "sys.exit(', '.join({'torch._dynamo', 'torch._inductor'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_determinism_is_as_torch_has_it() -> None:
    """Inside a run torch refuses what has no deterministic form; afterwards it is as before."""
    from crosswind.training.device import reproducible

    with reproducible(TrainingSettings()):
        assert (
            torch.are_deterministic_algorithms_enabled()
            and not torch.is_deterministic_algorithms_warn_only_enabled()
        )
    assert not torch.are_deterministic_algorithms_enabled()
