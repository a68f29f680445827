"""Steps of the loop on real reviews beside a plain loop over prepared tensors and transformers'
Trainer; what cutting spares.

    python -m benchmarks.speed.texts [--data FOLDER] [--rounds 7] [--steps 20] [--models text-cnn,roberta] [--out FILE]

4,000 reviews of twelve domains, batches of 32 of at most 128 tokens, one thread, CPU time, all
sides in turn in one process. Plain: tokens and labels lie ready as tensors; a step takes the rows
that the loop takes, cuts them to their longest, and does forward pass, cross-entropy, backward pass
and the same fused Adam; for `roberta` (4 layers of 128, tokens of a BPE made of the reviews) the
network is the library's own with a linear head. Trainer: the same network, batches padded to their
longest, between its first and its last step. Beside them the loop with rows of similar length
together (length_pool 50), and the plain loop without cutting. Prints steps a second and ratios:
median and range over rounds. Goal: loop / plain at least 0.95.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars
import torch
from benchmarks.speed.step import Rows
from torch import Tensor, nn

from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.methods.base import Info
from crosswind.methods.erm import ERM
from crosswind.models.build import build_model, unnamed
from crosswind.models.networks.encoding import encoded
from crosswind.training.loader import EvaluationRows, TrainingRows
from crosswind.training.memory import keep_freed_memory
from crosswind.training.run_context import ContextRows, LoopContext
from crosswind.training.settings import ModelSpec, TrainingSettings

N, BATCH, TOKENS, GOAL = 4000, 32, 128, 0.95
SIZES: dict[str, dict[str, Any]] = {
    "text-cnn": {"words": TOKENS, "embedding": 64, "width": 32, "hidden": 64, "buckets": 8192},
    "text-cnn-paper": {"words": TOKENS},
    "roberta": {"tokens": TOKENS, "weights": None, "dropout": 0.0},
}
Timed = Callable[[int, int], float]
"""The first step and how many -> CPU seconds a step."""


def reviews(folder: Path) -> AttributedDataset:
    table = polars.read_parquet(folder / "fdu_mtl_12domains.parquet").sample(
        N, seed=0, shuffle=True
    )
    texts, label = (
        table["text"].to_numpy().astype(object),
        table["label"].to_numpy().astype(np.uint8),
    )
    attributes = AttributeTable((Attribute("label", ("0", "1")),), label[None])
    return AttributedDataset("reviews", attributes, lambda rows: texts[rows], InputSpec.text())


def write_encoder(folder: Path, texts: np.ndarray) -> None:
    """A small RoBERTa's config.json and a byte-level BPE of the reviews."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import RobertaConfig

    special = ["<s>", "<pad>", "</s>", "<unk>"]
    made: Any = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=True),
        decoders.ByteLevel(),
    )
    made.train_from_iterator(
        texts.tolist(),
        trainers.BpeTrainer(vocab_size=8192, special_tokens=special, show_progress=False),
    )
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    made.save(str(folder / "tokenizer.json"))
    sizes = {
        "hidden_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 512,
    }
    RobertaConfig(
        vocab_size=8192, max_position_embeddings=TOKENS + 2, type_vocab_size=1, **sizes
    ).save_pretrained(folder)


class Plain(nn.Module):
    """The library's own encoder with a linear head on the first token; tokens as the loop has
    them."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoConfig, RobertaModel

        super().__init__()
        config = AutoConfig.from_pretrained(folder)
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
        self.net = RobertaModel(config, add_pooling_layer=False)
        self.fc = nn.Linear(config.hidden_size, 2)

    def forward(self, x: Tensor) -> Tensor:
        there = x != 0
        out: Tensor = self.fc(
            self.net(torch.where(there, x - 1, 1), attention_mask=there.long()).last_hidden_state[
                :, 0
            ]
        )
        return out


def loop_of(
    spec: ModelSpec, data: AttributedDataset, pool: int
) -> tuple[Callable[[int], None], TrainingRows]:
    """A step of the loop, and its rows."""
    settings = TrainingSettings(batch=BATCH, length_pool=pool)
    label = data.table.column("label").astype(np.int64)
    rows: Any = Rows(np.arange(N), label, label, np.full(N, 1 / N))
    loader = TrainingRows(rows, data, settings, 0, "epoch")
    method, images = ERM(), EvaluationRows(rows, data, settings, resident=False)
    tools = LoopContext(
        method,
        Info(data.check_inputs(), 2, N),
        spec,
        settings,
        0,
        ContextRows(loader, images),
        None,
    )
    stage = method.stage(0, tools)
    assert stage is not None
    tools.begin(stage, fresh=False)
    tools.train()
    logged = []

    def step(number: int) -> None:
        tools.batch = loader.batch(number, 10_000)
        torch.default_generator.manual_seed(number)
        logged.append(method.update(tools, tools.batch).total.detach())

    return step, loader


def plain_of(
    model: nn.Module, loader: TrainingRows, tokens: Tensor, label: Tensor, cut: bool
) -> Callable[[int], None]:
    optimiser = torch.optim.Adam(model.train().parameters(), lr=1e-3, fused=True)
    length = (tokens != 0).sum(1)
    order = [torch.from_numpy(loader.rows_of(number)[0]) for number in range(2000)]

    def step(number: int) -> None:
        chosen = order[number]
        x = tokens[chosen]
        if cut:
            x = x[:, : int(length[chosen].max())]
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), label[chosen]).backward()
        optimiser.step()

    return step


def by_cpu(step: Callable[[int], None]) -> Timed:
    def timed(start: int, steps: int) -> float:
        begun = time.process_time()
        for number in range(start, start + steps):
            step(number)
        return (time.process_time() - begun) / steps

    return timed


def trainer_of(model: nn.Module, tokens: Tensor, label: Tensor, folder: Path) -> Timed:
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
            logits = self.model(x)
            return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}

    given = [
        {"x": row[: int((row != 0).sum())], "labels": one}
        for row, one in zip(tokens, label, strict=True)
    ]

    def padded(rows: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        x = nn.utils.rnn.pad_sequence([row["x"] for row in rows], batch_first=True)
        return {"x": x, "labels": torch.stack([row["labels"] for row in rows])}

    class Watch(TrainerCallback):
        ends: list[float]

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.ends.append(time.process_time())

    network = Whole()

    def timed(start: int, steps: int) -> float:
        watch = Watch()
        watch.ends = []
        told = {
            "save_strategy": "no",
            "logging_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
            "use_cpu": True,
        }
        arguments = TrainingArguments(
            str(folder),
            max_steps=steps + 1,
            per_device_train_batch_size=BATCH,
            optim="adamw_torch_fused",
            seed=start,
            lr_scheduler_type="constant",
            learning_rate=1e-3,
            remove_unused_columns=False,
            dataloader_pin_memory=False,
            **told,
        )
        Trainer(
            network, arguments, data_collator=padded, train_dataset=given, callbacks=[watch]
        ).train()  # type: ignore[arg-type]
        return (watch.ends[-1] - watch.ends[0]) / steps

    return timed


def sides_of(name: str, texts: AttributedDataset, folder: Path) -> dict[str, Timed]:
    knobs = {**SIZES[name], **({"path": str(folder)} if name == "roberta" else {})}
    spec = ModelSpec("transformer" if name == "roberta" else "text-cnn", knobs)
    begun = time.process_time()
    data = encoded(texts, spec.name, spec.knobs, 0, "cpu", "fp32")
    kept = data.inputs(np.arange(N))
    print(
        f"{name}: {N / (time.process_time() - begun):,.0f} reviews/s become tokens, once",
        flush=True,
    )
    tokens, label = (
        torch.from_numpy(kept),
        torch.from_numpy(data.table.column("label").astype(np.int64)),
    )
    loop, loader = loop_of(spec, data, 0)

    def network() -> nn.Module:
        return (
            Plain(folder)
            if name == "roberta"
            else build_model(spec.name, spec.knobs, data.check_inputs(), unnamed(2), 0).train()
        )

    return {
        "loop": by_cpu(loop),
        "plain": by_cpu(plain_of(network(), loader, tokens, label, True)),
        "Trainer": trainer_of(network(), tokens, label, folder / "trainer"),
        "loop, length_pool 50": by_cpu(loop_of(spec, data, 50)[0]),
        "plain, uncut": by_cpu(plain_of(network(), loader, tokens, label, False)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--models", default="text-cnn,roberta,text-cnn-paper")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    texts, found = reviews(options.data), {}
    with tempfile.TemporaryDirectory() as name:
        write_encoder(Path(name), texts.inputs(np.arange(N)))
        for model in options.models.split(","):
            steps = max(3, options.steps // 5) if model == "text-cnn-paper" else options.steps
            sides = sides_of(model, texts, Path(name))
            for timed in sides.values():
                timed(0, 3)
            rounds = [
                {side: timed(3 + turn * steps, steps) for side, timed in sides.items()}
                for turn in range(options.rounds)
            ]
            print(
                f"{model}: {1 / statistics.median(one['loop'] for one in rounds):.1f} steps/s of"
                " the loop",
                flush=True,
            )
            found[model] = {
                "steps": steps,
                "seconds a step": {side: [one[side] for one in rounds] for side in sides},
            }
            for side in list(sides)[1:]:
                ratios = [one[side] / one["loop"] for one in rounds]
                goal = f"  goal {GOAL}" if side == "plain" else ""
                spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
                print(f"  loop / {side}: {spread}{goal}", flush=True)
                found[model][f"loop / {side}"] = [
                    statistics.median(ratios),
                    min(ratios),
                    max(ratios),
                ]
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
