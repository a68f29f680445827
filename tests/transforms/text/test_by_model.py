"""SSMBA and back-translation on tiny random models: what is drawn, what stays, what is kept on
disk, what is refused."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.transforms.text.test_draws import even

from crosswind.core.errors import DataError, InputError
from crosswind.core.registry import load
from crosswind.core.seeds import hash64
from crosswind.core.types import PART_MARK
from crosswind.transforms.text import kept, pretrained
from crosswind.transforms.text.by_model import batches, drawn
from crosswind.transforms.text.changing import changed_texts
from crosswind.transforms.text.draws import Draws, edits
from crosswind.transforms.text.kept import Kept

pytest.importorskip("transformers")

TEXTS = [
    "The film was very good, but I hate it! Naïve 日本 é.",
    "",
    "  \n",
    f"I love this Book; it is fun.{PART_MARK}The actor was awful.",
    "i hate the film and it is not good. " * 8,
    "wow",
]
KEYS = hash64(np.arange(len(TEXTS)), 11)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.transforms.text.little_models import masked, translator

    folder = tmp_path_factory.mktemp("models")
    masked(folder / "bert")
    masked(folder / "roberta", kind="roberta")
    masked(folder / "maskless", mask=False)
    masked(folder / "headless", head=False)
    for source_language, target_language in (("en", "de"), ("de", "en"), ("fr", "en")):
        translator(
            folder / f"{source_language}-{target_language}",
            source_language,
            target_language,
            seed=len(source_language + target_language),
        )
    return folder


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSWIND_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "data" / kept.FOLDER


def made(name: str, models: Path, **knobs: Any) -> Any:
    model_folders = {
        "ssmba": {"model": "bert"},
        "back-translation": {"there": "en-de", "back": "de-en"},
    }[name]
    model_paths = {key: str(models / value) for key, value in model_folders.items()}
    return load("text-transforms", name)(**{**model_paths, **knobs})


ALL = [
    ("ssmba", {}),
    ("ssmba", {"draw": "uniform"}),
    ("ssmba", {"model": "roberta"}),
    ("back-translation", {}),
    ("back-translation", {"draw": "uniform"}),
]


@pytest.mark.parametrize(("name", "knobs"), ALL)
def test_a_text_and_its_key_decide(
    name: str, knobs: dict[str, Any], models: Path, root: Path
) -> None:
    knobs = {key: str(models / value) if key == "model" else value for key, value in knobs.items()}
    transform = made(name, models, **knobs)
    changed = changed_texts(transform, TEXTS, KEYS)
    assert (
        list(changed[1:3]) == ["", ""]
        and all(changed[[0, 3, 4, 5]])
        and changed[3].count(PART_MARK) == 1
    )
    assert sum(changed_text != text for changed_text, text in zip(changed, TEXTS, strict=True)) >= 4
    for index in range(len(TEXTS)):
        for file in root.iterdir():  # made anew, alone
            file.unlink()
        assert (
            changed_texts(transform, TEXTS[index : index + 1], KEYS[index : index + 1])[0]
            == changed[index]
        )
    rekeyed = changed_texts(transform, [TEXTS[0]] * 30, hash64(np.arange(30), 5))
    assert len(set(rekeyed)) > 12, "other keys, other texts"


def test_what_is_not_corrupted_stays_to_the_letter(models: Path) -> None:
    """Capitals, letters that the tokenizer does not know, and spaces, around one token that became
    another one."""
    text = "  An  ODD\tline 日本 of the Film"
    out = changed_texts(
        made("ssmba", models, rate=0.01, masked=0.0, noise=0.0),
        [text] * 60,
        hash64(np.arange(60), 2),
    )
    assert len(set(out) - {text}) > 10
    for changed in set(out) - {text}:
        first = next(
            (
                index
                for index, (changed_word, word) in enumerate(zip(changed, text, strict=False))
                if changed_word != word
            ),
            len(text),
        )
        last = next(
            (
                distance
                for distance in range(len(text))
                if distance >= len(changed) or changed[-1 - distance] != text[-1 - distance]
            ),
            len(text),
        )
        assert len(text) - first - last <= 6, changed


def test_so_many_tokens_are_corrupted_and_so(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the network is shown: masked, random and unmasked tokens at their rates, at even places,
    never a special one."""
    transform = made("ssmba", models, rate=0.25)
    network, tokenizer = transform._loaded()
    text, mask = (
        "a film but i hate it is not good so dull fun . very bad story was great",
        tokenizer.mask_token_id,
    )
    row = tokenizer(text, add_special_tokens=False)["input_ids"]
    plain = tuple(sorted(set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids)))
    masked_places, kinds, shown_words = Counter[object](), Counter[str](), Counter[object]()
    for key in range(3000):
        choices = transform._chosen(row, Draws(key), mask, plain)
        assert len(choices) == edits(0.25, len(row)) == 4
        for choice in choices:
            masked_places[choice.place] += 1
            kinds[
                (
                    "masked"
                    if choice.shown == mask
                    else "same"
                    if choice.shown == row[choice.place]
                    else "random"
                )
            ] += 1
            shown_words.update(
                [choice.shown] if choice.shown not in (mask, row[choice.place]) else []
            )
    assert (
        even(masked_places, len(row))
        and set(shown_words) <= set(plain)
        and len(shown_words) > 0.9 * len(plain)
    )
    total = sum(kinds.values())
    assert abs(kinds["masked"] / total - 0.8) < 0.015 and abs(kinds["random"] / total - 0.1) < 0.012
    counts = Counter(
        len(made("ssmba", models, draw="uniform", rate=0.5)._chosen(row, Draws(key), mask, plain))
        for key in range(600)
    )
    assert set(counts) == set(range(1, 9)) and counts[1] > counts[4] > 30, (
        "evenly up to half of the tokens, one at least"
    )


@pytest.mark.slow
def test_tokens_come_as_often_as_the_network_says(models: Path) -> None:
    import torch

    transform = made("ssmba", models, rate=0.01, masked=1.0, noise=0.0)
    network, tokenizer = transform._loaded()
    frequencies = Counter(
        changed_texts(transform, ["film"] * 4000, hash64(np.arange(4000), 9)).tolist()
    )
    with torch.no_grad():
        logits = network(**tokenizer("[MASK]", return_tensors="pt")).logits[0, 1].double()
    logits[tokenizer.all_special_ids] = -torch.inf
    expected = logits.softmax(0)
    assert sum(frequencies.values()) == 4000 and not any("[" in text for text in frequencies), (
        "no special token"
    )
    for number in expected.argsort(descending=True)[:5].tolist():
        word = tokenizer.convert_ids_to_tokens(number).removeprefix("##")
        several = {word, f"##{word}"} & set(tokenizer.get_vocab())
        share = sum(float(expected[tokenizer.get_vocab()[word]]) for word in several)
        assert abs(frequencies[word] / 4000 - share) < 4.5 * np.sqrt(share * (1 - share) / 4000), (
            word
        )


def test_draws_follow_the_temperature() -> None:
    import torch

    logits = torch.tensor([[0.0, 1.0, 2.0]]).repeat(20000, 1)
    uniform = torch.from_numpy(np.random.default_rng(0).random(20000))
    for heat in (0.5, 1.0, 2.0):
        shares = (
            np.bincount(drawn(logits, torch.full((20000,), heat), uniform), minlength=3) / 20000
        )
        assert shares == pytest.approx((logits[0] / heat).softmax(0).numpy(), abs=0.015)
    assert set(drawn(logits, torch.zeros(20000), uniform).tolist()) == {2}, "the likeliest"
    logits[:, 2] = -torch.inf
    assert set(drawn(logits, torch.ones(20000), uniform).tolist()) == {0, 1}
    assert drawn(
        torch.tensor([[0.0, -torch.inf]]),
        torch.ones(1),
        torch.tensor([1 - 2**-53], dtype=torch.float64),
    ).tolist() == [0]


@pytest.mark.slow
def test_a_long_text_is_read_in_runs_and_by_sentences(models: Path) -> None:
    word, million = "film " * 400, "a" * 3000
    for name in ("ssmba", "back-translation"):
        changed = changed_texts(made(name, models), [word, million, "日" * 300], KEYS[:3])
        assert all(changed)
    moved = changed_texts(made("ssmba", models, rate=1.0, masked=1.0, noise=0.0), [word], KEYS[:1])[
        0
    ]
    assert "film film film film" not in moved[-100:], "the last run is changed too"


@pytest.mark.slow
def test_at_temperature_0_it_is_the_greedy_translation_of_the_library(models: Path) -> None:
    transform = made("back-translation", models, temperature=0.0)
    sentences, met = (
        [f"i {word} the film" for word in ["hate", "love", "good", "bad", "fun", "dull", "great"]],
        set(),
    )
    changed_sentences = changed_texts(transform, sentences, hash64(np.arange(len(sentences)), 1))
    for text, changed in zip(sentences, changed_sentences, strict=True):
        for network, tokenizer in transform._loaded():
            ids = tokenizer([text], return_tensors="pt")
            max_tokens = min(23, 2 * ids["input_ids"].shape[1] + 16)
            plain = {
                "num_beams": 1,
                "do_sample": False,
                "forced_eos_token_id": None,
                "suppress_tokens": [tokenizer.pad_token_id],
            }
            text = tokenizer.batch_decode(
                network.generate(**ids, **plain, max_new_tokens=max_tokens),
                skip_special_tokens=True,
            )[0].strip()
        assert text in (changed, "")
        met.add(text)
    assert len(met) >= 2


def test_batches_hold_texts_of_about_equal_lengths() -> None:
    lengths = [5, 900, 3, 40, 4, 41]
    text_batches = batches(lengths, 100)
    assert sorted(index for batch in text_batches for index in batch) == list(range(6))
    assert text_batches == [[2, 4, 0], [3, 5], [1]]
    assert batches([], 10) == []


# -- kept on disk ----------------------------------------------------------------------------------


def count_texts(monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    """How many texts are handed to the networks, call by call."""
    cls, batch_sizes = load("text-transforms", name), list[int]()
    changed = cls.changed

    def counted(self: Any, texts: Any, keys: Any) -> Any:
        batch_sizes.append(len(texts))
        return changed(self, texts, keys)

    monkeypatch.setattr(cls, "changed", counted)
    return batch_sizes


@pytest.mark.parametrize("name", ["ssmba", "back-translation"])
def test_a_text_is_changed_once(
    name: str, models: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_sizes = count_texts(monkeypatch, name)
    first = changed_texts(made(name, models), TEXTS, KEYS)
    assert batch_sizes == [5], "of six texts two are empty, and one has two parts"
    assert changed_texts(made(name, models), TEXTS[::-1], KEYS[::-1])[
        ::-1
    ].tolist() == first.tolist() and batch_sizes == [5]
    extended = changed_texts(made(name, models), [*TEXTS, "a new one"], hash64(np.arange(7), 11))
    assert batch_sizes == [5, 1] and extended[:6].tolist() == first.tolist()
    changed_texts(made(name, models), TEXTS[:1], KEYS[1:2])
    assert batch_sizes == [5, 1, 1], "another key"
    assert len(list(root.iterdir())) == 1
    changed_texts(made(name, models, draw="uniform"), TEXTS[:1], KEYS[:1])
    assert batch_sizes[3:] == [1] and len(list(root.iterdir())) == 2, (
        "other settings have a file of their own"
    )


def test_a_model_counts_by_its_files_and_not_by_their_place(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    from tests.transforms.text.little_models import masked

    batch_sizes = count_texts(monkeypatch, "ssmba")
    first = changed_texts(made("ssmba", models), TEXTS[:1], KEYS[:1])
    shutil.copytree(models / "bert", tmp_path / "moved")
    assert changed_texts(
        made("ssmba", tmp_path, model=str(tmp_path / "moved")), TEXTS[:1], KEYS[:1]
    ) == first and batch_sizes == [1]
    shutil.rmtree(tmp_path / "moved")
    masked(tmp_path / "moved", seed=5)
    changed_texts(made("ssmba", tmp_path, model=str(tmp_path / "moved")), TEXTS[:1], KEYS[:1])
    assert batch_sizes == [1, 1], "other weights under the same name"


def _put(path: str, number: int, times: int) -> None:
    os.environ["CROSSWIND_DATA"] = path
    store = Kept("some", "same")
    for start in range(times):
        texts = [f"{number} {start} {row}" for row in range(20)]
        store.put(texts, np.arange(20, dtype=np.uint64), [text.upper() for text in texts])


@pytest.mark.slow
def test_processes_keep_side_by_side_and_one_may_be_killed(root: Path) -> None:
    context, path = multiprocessing.get_context("spawn"), str(root.parent)
    workers = [context.Process(target=_put, args=(path, number, 5)) for number in (0, 1)]
    killed = context.Process(target=_put, args=(path, 2, 10**6))
    for worker in (*workers, killed):
        worker.start()
    for worker in workers:
        worker.join(60)
    deadline = time.monotonic() + 60
    while (
        not Kept("some", "same").get(["2 3 0"], np.zeros(1, dtype=np.uint64))
        and time.monotonic() < deadline
    ):
        time.sleep(0.05)
    assert killed.pid is not None
    os.kill(killed.pid, signal.SIGKILL)
    killed.join(10)
    assert [worker.exitcode for worker in workers] == [0, 0]
    texts = [
        f"{number} {start} {row}" for number in (0, 1) for start in range(5) for row in range(20)
    ]
    keys = np.tile(np.arange(20, dtype=np.uint64), 10)
    stored_texts = Kept("some", "same").get(texts, keys)
    assert stored_texts == {index: text.upper() for index, text in enumerate(texts)}
    store = sqlite3.connect(Kept("some", "same").path)
    assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    (n_texts,) = store.execute("SELECT count(*) FROM texts").fetchone()
    store.close()
    assert n_texts % 20 == 0 and n_texts > 200, "what was put together is there together"


def test_a_full_or_broken_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, keys = Kept("some", "full"), np.arange(50, dtype=np.uint64)
    monkeypatch.setattr(kept, "MOST_PAGES", 4)
    texts = [f"text {number}" for number in range(50)]
    store.put(texts[:2], keys[:2], ["one", "two\ud800"])
    store.put(texts[2:], keys[2:], ["x" * 4000] * 48)
    assert (
        store.get(texts[:2], keys[:2]) == {0: "one", 1: "two\ud800"}
        and store.path.stat().st_size <= 4 * 4096
    )
    assert store.get(texts[:1], np.array([2**64 - 1], dtype=np.uint64)) == {}
    store.path.write_bytes(b"no database at all" * 100)
    with pytest.raises(
        DataError,
        match="changed texts cannot be kept in .*full.sqlite .*; delete it, or name another folder",
    ):
        store.get(texts, keys)
    root.parent.joinpath("file").write_text("")
    monkeypatch.setenv("CROSSWIND_DATA", str(root.parent / "file"))
    with pytest.raises(DataError, match="changed texts cannot be kept in .*Not a directory"):
        Kept("some", "other").put(texts, keys, texts)


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_cannot_be_is_one_sentence(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pickled = tmp_path / "pickled"
    pickled.mkdir()
    (pickled / "config.json").write_text((models / "bert" / "config.json").read_text())
    (pickled / "pytorch_model.bin").write_bytes(b"")
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in (models / "bert").iterdir():
        (broken / file.name).write_bytes(
            file.read_bytes()[:-40] if file.suffix == ".safetensors" else file.read_bytes()
        )
    cases = [
        (
            "ssmba",
            {"model": ""},
            "ssmba.model: must name a model: a folder, or one of the hub with its commit",
        ),
        (
            "ssmba",
            {"model": "no/where/at/all"},
            "ssmba.model: there is no folder 'no/where/at/all'",
        ),
        (
            "ssmba",
            {"model": "some/model"},
            (
                "ssmba.model: there is no folder 'some/model'; for a model of the hub, revision"
                " must be"
            ),
        ),
        ("ssmba", {"model": "some/model", "revision": "main"}, "revision must be its commit"),
        (
            "ssmba",
            {"model": "some/model", "revision": "0" * 40},
            "ssmba.model: 'some/model' at 00000000 is not in the cache",
        ),
        ("ssmba", {"model": str(pickled)}, "ssmba.model: .* has no weights as safetensors"),
        (
            "ssmba",
            {"model": str(broken)},
            "ssmba.model: .* cannot be loaded as a masked language model",
        ),
        (
            "ssmba",
            {"model": str(models / "maskless")},
            "ssmba.model: the tokenizer of .* has no token that masks",
        ),
        ("ssmba", {"model": str(models / "headless")}, "ssmba.model: .* its files lack .* tensors"),
        (
            "ssmba",
            {"model": str(models / "en-de")},
            "ssmba.model: .* cannot be loaded as a masked language model",
        ),
        ("ssmba", {"masked": 0.9, "noise": 0.2}, "ssmba.noise: and masked are 1.1 together"),
        (
            "back-translation",
            {"back": str(models / "fr-en")},
            "back: translates fr to en; beside en to de it must be de to en",
        ),
        (
            "back-translation",
            {"there": str(models / "bert")},
            "there: .* cannot be loaded as a translation model",
        ),
        (
            "back-translation",
            {"temperature": -1.0},
            r"back-translation.temperature: must be in \[0, inf\)",
        ),
    ]
    for name, knobs, words in cases:
        with pytest.raises(InputError, match=words):
            made(name, models, **knobs).check()
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    with pytest.raises(
        InputError, match=r"ssmba.model: needs the extra: pip install 'crosswind\[transformers\]'"
    ):
        made("ssmba", models).check()
