"""One training run the ordinary way: a process of its own, torchvision on one Pillow image at a
time, torch's DataLoader, fp32.

    python -m benchmarks.speed.reference_way ROWS.npz --model small-cnn --steps 500 --lr 0.003 --seed 0 [--second-forward]

The reference side of benchmarks/speed/study.py, as research code on distribution shifts is usually
written; nothing of Crosswind is imported. `ROWS.npz` holds `train`, `validation` and `test`, each
as `.../pixels` uint8 [n, side, side, 3] and `.../label` int64 [n]. With --second-forward the batch
goes through the network once more after each step, for a running confusion matrix on the host: the
reference way. Without it: the fair way. The second pass is in evaluation mode and changes no number
of the training. Prints one line of JSON: accuracies, what was done, and seconds.
"""

from __future__ import annotations

import time

STARTED = time.perf_counter()

import argparse  # noqa: E402  (imports are part of what a run costs)
import copy  # noqa: E402
import json  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
from PIL import Image  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402
from torchvision import transforms  # noqa: E402

CLASSES = 10
LOADER_WORKERS = 2


class Pictures(Dataset):  # type: ignore[type-arg]
    """Rows as Pillow images, transformed one by one."""

    def __init__(self, path: str, rows: str, transform: transforms.Compose) -> None:
        with np.load(path, allow_pickle=False) as arrays:
            self.pixels, self.label = arrays[f"{rows}/pixels"], arrays[f"{rows}/label"]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        return self.transform(Image.fromarray(self.pixels[row])), int(self.label[row])


def make_model(name: str, side: int) -> nn.Module:
    """Crosswind's `mlp`, `small-cnn` and `resnet18` in plain torch; a test holds them to the same
    logits."""
    if name == "mlp":
        widths = [3 * side * side, 256, 256, 256, 256]
        hidden = [
            part
            for a, b in zip(widths, widths[1:], strict=False)
            for part in (nn.Linear(a, b), nn.ReLU(inplace=True))
        ]
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(256, CLASSES))
    if name == "small-cnn":
        parts: list[nn.Module] = []
        for before, after in ((3, 32), (32, 64), (64, 128)):
            parts += [
                nn.Conv2d(before, after, 3, padding=1, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(inplace=True),
                nn.MaxPool2d(2),
            ]
        return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, CLASSES))
    if name == "resnet18":
        return torchvision.models.resnet18(weights=None, num_classes=CLASSES)
    raise SystemExit(f"no model {name!r}: mlp, small-cnn, resnet18")


def evaluate(model: nn.Module, loader: DataLoader, device: str) -> tuple[float, float]:  # type: ignore[type-arg]
    """Accuracy and mean loss of a set, in evaluation mode."""
    model.eval()
    correct, total, loss = 0, 0, 0.0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            logits = model(x)
            loss += nn.functional.cross_entropy(logits, y, reduction="sum").item()
            correct += int((logits.argmax(1) == y).sum().item())
            total += len(y)
    model.train()
    return correct / total, loss / total


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("rows")
    parser.add_argument("--model", required=True)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--validate-every", type=int, default=100)
    parser.add_argument("--second-forward", action="store_true")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    device = options.device
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)

    plain = [transforms.ToTensor(), transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))]
    augmented = transforms.Compose([transforms.RandAugment(2, 9), *plain])
    train = Pictures(options.rows, "train", augmented)
    loader = DataLoader(
        train,
        options.batch,
        shuffle=True,
        drop_last=True,
        num_workers=LOADER_WORKERS,
        persistent_workers=True,
    )
    evaluations = {
        name: DataLoader(
            Pictures(options.rows, name, transforms.Compose(plain)),
            256,
            num_workers=LOADER_WORKERS,
            persistent_workers=True,
        )
        for name in ("validation", "test")
    }
    model = make_model(options.model, train.pixels.shape[1]).to(device)
    model.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=options.lr)

    begun = time.perf_counter()
    step, losses, history = 0, [], []
    best, kept = (-1.0, 0.0), None
    confusion = np.zeros((CLASSES, CLASSES), dtype=np.int64)
    while step < options.steps:
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = nn.functional.cross_entropy(model(x), y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
            step += 1
            if options.second_forward:
                model.eval()
                with torch.no_grad():
                    answer = model(x).argmax(1)
                model.train()
                np.add.at(confusion, (y.cpu().numpy(), answer.cpu().numpy()), 1)
            if step % options.validate_every == 0 or step == options.steps:
                accuracy, validation_loss = evaluate(model, evaluations["validation"], device)
                history.append({"step": step, "loss": float(np.mean(losses)), "accuracy": accuracy})
                losses = []
                if (
                    accuracy,
                    -validation_loss,
                ) > best:  # the highest accuracy, ties by the lower loss
                    best, kept = (accuracy, -validation_loss), copy.deepcopy(model.state_dict())
            if step == options.steps:
                break
    if kept is not None:
        model.load_state_dict(kept)
    accuracy, _ = evaluate(model, evaluations["test"], device)
    done = {
        "accuracy": accuracy,
        "validation_accuracy": best[0],
        "history": history,
        "images": step * options.batch,
        "counted": int(confusion.sum()),
        "start_seconds": begun - STARTED,
        "loop_seconds": time.perf_counter() - begun,
    }
    print(json.dumps(done))


if __name__ == "__main__":
    main()
