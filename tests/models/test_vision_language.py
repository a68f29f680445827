"""Vision-language models answer in words or by likelihoods: real loading of tiny models of three
kinds with random weights."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.tiny_clip import clip_folder
from tests.models.tiny_vision import MAKERS, write_llava

import crosswind as cw
from crosswind.core.errors import CrosswindError, DataError, InputError
from crosswind.execution.jobs import GIVEN
from crosswind.models.given.outside import telling
from crosswind.models.language import vision_language
from crosswind.models.language.clip import Clip
from crosswind.models.language.vision_language import VisionLanguage
from crosswind.storage.predictions_file import TEXTS, read_texts, run_predictions
from crosswind.storage.store import Store
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

CLASSES = [str(digit) for digit in range(10)]
ROWS: Any = SimpleNamespace(rows=np.arange(3, 8))


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture(scope="module")
def digits() -> cw.AttributedDataset:
    return cw.load("digits")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: make(tmp_path_factory.mktemp("models") / name) for name, make in MAKERS.items()}


def model(folder: Path, **knobs: Any) -> VisionLanguage:
    return VisionLanguage(
        **{
            "path": str(folder),
            "max_new_tokens": 4,
            "prompt": "Which digit is it , {labels}",
            **knobs,
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
def test_every_kind_is_loaded_and_answers_in_words_and_by_likelihood(
    kind: str, folders: dict[str, Path], digits: cw.AttributedDataset
) -> None:
    codes, logits, texts = model(folders[kind]).answer(ROWS, digits, CLASSES)  # type: ignore[misc]
    assert logits is None
    assert len(texts) == 5
    assert codes.tolist() == model(folders[kind]).question(CLASSES).read(texts).tolist()
    assert not any("USER" in text or "<" in text for text in texts), (
        "the prompt and marks are no part of an answer"
    )
    codes, logits = model(folders[kind], by="score").answer(ROWS, digits, CLASSES)
    assert logits is not None
    assert logits.shape == (5, 10)
    assert logits.dtype == np.float32
    assert (logits < 0).all()
    assert codes.tolist() == logits.argmax(1).tolist() and np.ptp(logits, axis=0).max() > 1e-3, (
        "the image matters"
    )
    for knobs in ({"by": "score"}, {}, {"temperature": 1.0}):
        alone, together = (
            model(folders[kind], batch=size, **knobs).answer(ROWS, digits, CLASSES)
            for size in (1, 5)
        )
        assert alone[2:] == together[2:]
        assert alone[0].tolist() == together[0].tolist()


def test_scores_and_answers_are_those_of_the_library_by_hand(
    folders: dict[str, Path], digits: cw.AttributedDataset
) -> None:
    from transformers import AutoProcessor, LlavaForConditionalGeneration

    net = LlavaForConditionalGeneration.from_pretrained(folders["llava"]).eval()
    processor = AutoProcessor.from_pretrained(folders["llava"])
    # as the template of the tests has it; <s> is the tokenizer's
    prompt = "<|user|><image> Is it a digit<|end|><|assistant|>"
    knobs = {"prompt": "Is it a digit", "answers": {"yes": "a", "no": "b", "not one": "b"}}
    image = vision_language._pictures(digits.inputs(ROWS.rows[:1]))
    first_row: Any = SimpleNamespace(rows=ROWS.rows[:1])
    by_word = []
    for word in ("yes", "no", "not one"):
        model_inputs = processor(images=image, text=prompt + word, return_tensors="pt")
        n_tokens = len(word.split())
        assert model_inputs["input_ids"][0, 0] == 0
        assert (model_inputs["input_ids"][0] == 0).sum() == 1
        with torch.inference_mode():
            p = net(**model_inputs).logits[0, -n_tokens - 1 : -1].log_softmax(-1)
        by_word.append(
            [
                float(p[index, token])
                for index, token in enumerate(model_inputs["input_ids"][0, -n_tokens:])
            ]
        )
    for score in ("sum", "mean"):
        scores_of_word = np.array([getattr(np, score)(item) for item in by_word])
        _, logits = model(folders["llava"], by="score", score=score, **knobs).answer(
            first_row, digits, ["a", "b"]
        )
        np.testing.assert_allclose(
            logits[0],
            [scores_of_word[0], np.logaddexp(scores_of_word[1], scores_of_word[2])],
            rtol=1e-4,
        )
    model_inputs = processor(images=image, text=prompt, return_tensors="pt")
    for beams in (1, 3):
        generated = net.generate(
            **model_inputs,
            max_new_tokens=4,
            num_beams=beams,
            do_sample=False,
            suppress_tokens=[4],
            repetition_penalty=1.5,
        )
        answers = model(folders["llava"], beams=beams, repetition_penalty=1.5, **knobs).answer(
            first_row, digits, ["a", "b"]
        )
        assert answers[2] == processor.batch_decode(
            generated[:, model_inputs["input_ids"].shape[1] :], skip_special_tokens=True
        )  # type: ignore[misc]


def test_the_q_former_reads_the_prompt_and_not_the_label(
    folders: dict[str, Path], digits: cw.AttributedDataset
) -> None:
    """As InstructBLIP's authors rank labels: what is seen of an image is the same for all of
    them."""
    from transformers import AutoProcessor, InstructBlipForConditionalGeneration

    net = InstructBlipForConditionalGeneration.from_pretrained(folders["instructblip"]).eval()
    processor = AutoProcessor.from_pretrained(folders["instructblip"])
    image = vision_language._pictures(digits.inputs(ROWS.rows[:1]))
    prompt = "USER:\nIs it a digit \nASSISTANT:"
    instruction = processor(images=image, text=prompt, return_tensors="pt")
    log_scores = []
    for word in ("yes", "no"):
        model_inputs = processor(images=image, text=f"{prompt} {word}", return_tensors="pt")
        model_inputs |= {
            name: value for name, value in instruction.items() if name.startswith("qformer")
        }
        with torch.inference_mode():
            log_scores.append(
                float(
                    net(**model_inputs)
                    .logits[0, -2]
                    .log_softmax(-1)[model_inputs["input_ids"][0, -1]]
                )
            )
    first_row: Any = SimpleNamespace(rows=ROWS.rows[:1])
    scoring_model = model(
        folders["instructblip"], by="score", prompt="Is it a digit", answers={"yes": "a", "no": "b"}
    )
    np.testing.assert_allclose(
        scoring_model.answer(first_row, digits, ["a", "b"])[1], [log_scores], rtol=1e-4
    )  # type: ignore[arg-type]


def test_draws_are_keyed_by_seed_and_row_and_follow_the_likelihoods(
    folders: dict[str, Path], digits: cw.AttributedDataset
) -> None:
    def texts(rows: list[int], **knobs: Any) -> list[str]:
        return list(
            model(folders["llava"], **knobs).answer(
                SimpleNamespace(rows=np.array(rows)), digits, CLASSES
            )[2]
        )  # type: ignore

    drawn = texts([3, 4, 5], temperature=1.0)
    assert texts([5, 3], temperature=1.0) == [drawn[2], drawn[0]]
    assert texts([3, 4, 5], temperature=1.0, seed=1) != drawn != texts([3, 4, 5])
    assert (
        texts([3, 4, 5], temperature=1e-4)
        == texts([3, 4, 5])
        == texts([3, 4, 5], temperature=1.0, top_p=1e-6)
    )
    p = torch.tensor([0.5, 0.3, 0.15, 0.05])
    draw = vision_language._Drawn(np.arange(4000), 0, 2.0, 0.9)
    draw_counts = [
        draw(torch.zeros(4000, 1), (p.log() * 2).expand(4000, 4)).argmax(1).bincount(minlength=4)
        / 4000
        for _ in range(2)
    ]
    for counts in draw_counts:  # the last is beyond nine tenths of the likeliest
        assert counts[3] == 0
        assert (counts[:3] - p[:3] / 0.95).abs().max() < 0.03
    assert not torch.equal(*draw_counts), "another step draws anew"


def test_a_model_without_a_template_is_spoken_to_as_in_the_paper(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    plain = model(write_llava(tmp_path / "plain", template=False))._loaded()
    assert plain.said("Is it", None) == "USER:<image>\nIs it \nASSISTANT:"
    assert plain.said("Is it", "{prompt} {image}") == "Is it <image>"
    assert plain.with_word("ASSISTANT:", "no") == "ASSISTANT: no"
    blip = model(folders["instructblip"])._loaded()
    assert blip.said("Is it", None) == "USER:\nIs it \nASSISTANT:"
    tokens = blip.tokens("Is it", vision_language._pictures(np.zeros((1, 8, 8, 1), np.uint8)))
    assert tokens[:4].tolist() == [4] * 4
    assert (tokens == 4).sum() == 4


@pytest.mark.slow
def test_a_prompt_that_is_too_long_is_refused_or_its_fallback_is_scored(
    folders: dict[str, Path], digits: cw.AttributedDataset, tmp_path: Path
) -> None:
    short = write_llava(tmp_path / "short", max_position_embeddings=30)
    with pytest.raises(
        DataError,
        match=(
            r"^short: the prompt has \d+ tokens with image and answer, and the model takes 30; ask"
            r" a short"
        ),
    ):
        model(short).answer(ROWS, digits, CLASSES)
    codes, logits = model(short, fallback="Which digit is it").answer(ROWS, digits, CLASSES)
    same = model(short, prompt="Which digit is it", by="score").answer(ROWS, digits, CLASSES)
    assert logits is not None
    assert np.array_equal(logits, same[1])
    assert codes.tolist() == same[0].tolist()
    with pytest.raises(DataError, match="the prompt that its Q-Former reads has 4[0-9] tokens"):
        model(folders["instructblip"], prompt="Is it {list} " + "or not " * 10).answer(
            ROWS, digits, CLASSES
        )


STUDY: dict[str, Any] = {
    "name": "words",
    "data": {
        "digits": {
            "source": "digits",
            "label": "digit",
            "attributes": ["ink"],
            "roles": {"test": 4},
        }
    },
    "shifts": {
        "none": [],
        "sc": {"type": "spurious-correlation", "attribute": "ink", "counterexamples": 0.2},
    },
    "sizes": {"small": {"total": 100}},
    "selection": ["last"],
    "seeds": 2,
}


@pytest.mark.slow
def test_it_is_asked_once_for_all_shifts_and_its_answers_are_kept(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    vision_model = {
        "model": "vision-language",
        "path": str(folders["llava"]),
        "max_new_tokens": 2,
        "batch": 64,
    }
    study = {
        **STUDY,
        "models": {
            "words": vision_model,
            "scored": {**vision_model, "by": "score", "prompt": "Which digit is it"},
        },
    }
    study["data"] = {
        "digits": {
            **STUDY["data"]["digits"],
            "keep": {"digit": [0, 1]},
            "roles": {"test": 4, "validation": 0.1},
        }
    }
    plan = make_plan(study_from(study))
    predict_jobs = [
        job for job in plan.jobs if job.kind == "predict" and job.labels["model"] == "words"
    ]
    assert len({job.key for job in predict_jobs if job.spec["set"] == "test"}) == 1, (
        "two shifts and two seeds share the test set"
    )
    study_run = cw.run_study(study, tmp_path / "out")
    assert study_run.summary.failed == 0
    from crosswind.cli.main import _status

    with Store.open(tmp_path / "out") as store:
        rows = {row["method"]: row for row in store.results("words") if row["set"] == "test"}
        predictions = run_predictions(store, rows["words"]["key"])[GIVEN]["test"]
        needs = [
            Path(str(store.run(key)["artifacts"]))
            for key in store.run(rows["words"]["key"])["needs"]
        ]
        assert not [
            path
            for key in store.run(rows["scored"]["key"])["needs"]
            if (path := store.run(key)["artifacts"] / TEXTS).exists()
        ]
    kept_texts = next(
        list(read_texts(folder))
        for folder in needs
        if len(list(read_texts(folder))) == len(predictions)
    )
    assert [record["id"] for record in kept_texts] == predictions.ids.tolist()
    names = dict(enumerate(["0", "1"]))
    assert [record["label"] for record in kept_texts] == [
        names.get(code) for code in predictions.answer.tolist()
    ]
    assert rows["words"]["metrics"]["unparsed"] == (predictions.answer == -1).sum() > 0
    assert rows["scored"]["metrics"]["unparsed"] == 0
    assert rows["words"]["metrics"]["nll"] is None
    assert rows["scored"]["metrics"]["nll"] > 0
    page = tmp_path / "page.html"
    assert _status(["report", str(tmp_path / "out"), "--page", str(page)]) == 0
    assert "could not be read as a label" in page.read_text(encoding="utf-8")
    assert _status(["show", "run", f"{tmp_path / 'out'}#{rows['words']['key']}"]) == 0


def keys(path: Path, **knobs: Any) -> set[str]:
    study = {**STUDY, "models": {"m": {"model": "vision-language", "path": str(path), **knobs}}}
    return {job.key for job in make_plan(study_from(study)).jobs if job.kind == "predict"}


def test_a_folder_counts_by_its_contents_not_by_its_place(tmp_path: Path) -> None:
    folder = write_llava(tmp_path / "one")
    before = keys(folder)
    assert (
        keys(folder.rename(tmp_path / "two")) == before != keys(tmp_path / "two", temperature=0.5)
    )
    (tmp_path / "two" / "chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    assert not keys(tmp_path / "two") & before


@pytest.mark.parametrize(
    ("knobs", "told"),
    [
        ({"path": "nowhere"}, "models.m.path: there is no folder 'nowhere'"),
        ({"path": "owner/name"}, "models.m.revision: 'owner/name' is on the hub"),
        ({"path": "EMPTY"}, "has no config.json of a vision-language model"),
        (
            {"path": "CLIP"},
            "holds a model of kind 'clip', which does not answer in words about images",
        ),
        (
            {"path": "BERT"},
            "holds a model of kind 'bert', which does not answer in words about images",
        ),
        ({"path": "BARE"}, "has no weights in safetensors, the only form that is read"),
        (
            {"path": "BARE", "four_bit": True},
            "models.m.four_bit: needs the package bitsandbytes: pip install bitsandbytes",
        ),
        (
            {"path": "BARE", "trust_code": True},
            "models.m.trust_code: runs code of a model of the hub",
        ),
        (
            {"path": "owner/name", "revision": "main", "trust_code": True},
            "models.m.trust_code: runs code of a model of the hub",
        ),
        ({"path": "T5", "by": "score"}, "models.m.by: scores labels behind a prompt, and '"),
        (
            {"path": "T5", "fallback": "What is it"},
            "reads prompts by an encoder; ask it with by: generate",
        ),
        (
            {"path": "BARE", "format": "{prompt}"},
            "models.m.format: must hold {image} and {prompt}, and is '{prompt}'",
        ),
        (
            {"path": "BARE", "fallback": "Is it {list}"},
            "models.m.fallback: must be a prompt without {labels} and {list}",
        ),
        ({"path": "BARE", "device": "gpu"}, "models.m.device: unknown value 'gpu'"),
        (
            {"path": "BARE", "beams": 2, "temperature": 1.0},
            "models.m.temperature: must be 0 with several beams",
        ),
        (
            {"path": "owner/name", "revision": "main", "prompt": "jeon2025-dress"},
            "models.m.answers: must say what an answer",
        ),
        (
            {"path": "owner/name", "revision": "main", "names": {"x": "y"}},
            "models.m.names: unknown class 'x'",
        ),
        (
            {"path": "owner/name", "revision": "main", "tuned": True},
            "models.m.by: must be score with tuned",
        ),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_planned(
    knobs: dict[str, Any], told: str, tmp_path: Path
) -> None:
    t5 = (
        '{"model_type": "instructblip", "vision_config": {}, "use_decoder_only_language_model":'
        " false}"
    )
    for name, config in (
        ("CLIP", '{"model_type": "clip", "vision_config": {}}'),
        ("BERT", '{"model_type": "bert"}'),
        ("T5", t5),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(config, encoding="utf-8")
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "BARE").mkdir()
    (tmp_path / "BARE" / "config.json").write_text(
        '{"model_type": "llava", "vision_config": {}}', encoding="utf-8"
    )
    path = tmp_path / knobs["path"] if knobs["path"].isupper() else knobs["path"]
    with pytest.raises(InputError) as caught:
        keys(**{**knobs, "path": path})
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("knobs", "told"),
    [
        (
            {"prompt": "Is it {labels} " + "a digit " * 70},
            r"llava: the prompt has 1\d\d tokens with image and answer, and the model",
        ),
        ({"device": "cuda"}, "model.device: torch finds no device 'cuda' here"),
        ({"format": "{prompt} {image} {image}"}, "the model's processor does not take the prompt"),
        (
            {"model": "clip", "prompts": ["a {label} " + "photo of " * 40]},
            r"model.prompts: 'a 0 photo.* is \d\d tokens, and the model",
        ),
        (
            {"model": "clip", "names": {"ten": "x"}},
            r"model.names: 'ten' and the others are no classes \(valid: 0, 1",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_written(
    knobs: dict[str, Any],
    told: str,
    folders: dict[str, Path],
    tmp_path: Path,
    capsys: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from crosswind.cli.main import _status

    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    path = clip_folder() if knobs.get("model") == "clip" else str(folders["llava"])
    study = {**STUDY, "models": {"m": {"model": "vision-language", "path": path, **knobs}}}
    (tmp_path / "study.yaml").write_text(json.dumps(study), encoding="utf-8")
    assert _status(["run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "out")]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert re.search(told, line)
    assert not (tmp_path / "out").exists()


def test_it_tells_how_many_rows_are_answered(
    folders: dict[str, Path], digits: cw.AttributedDataset
) -> None:
    progress: list[tuple[int, int]] = []
    with telling(lambda done, total: progress.append((done, total))):
        model(folders["llava"], batch=2).answer(ROWS, digits, CLASSES)
        Clip(clip_folder()).answer(ROWS, digits, CLASSES)
    assert progress == [(2, 5), (4, 5), (5, 5), (5, 5)]
    model(folders["llava"], batch=2).answer(ROWS, digits, CLASSES)
    assert len(progress) == 4, "nobody listens"


def test_texts_are_refused_when_it_is_planned(folders: dict[str, Path], tmp_path: Path) -> None:
    lines = [
        "text,label,length",
        *(f"word {index},{'ab'[index % 2]},{'sl'[index // 2 % 2]}" for index in range(400)),
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    source = {
        "source": "texts",
        "options": {"path": str(tmp_path / "t.csv")},
        "label": "label",
        "attributes": ["length"],
    }
    models = {"m": {"model": "vision-language", "path": str(folders["llava"])}}
    study = {
        **STUDY,
        "data": {"words": {**source, "roles": {"test": 20}}},
        "models": models,
        "shifts": {"none": []},
    }
    with pytest.raises(
        InputError, match=r"models\.m: vision-language takes images, and these are texts"
    ):
        make_plan(study_from({**study, "sizes": {"small": {"total": 100}}}))


def test_what_cannot_be_loaded_is_told_in_one_sentence(
    folders: dict[str, Path],
    digits: cw.AttributedDataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from safetensors.torch import load_file, save_file

    def refused(folder: Any, **knobs: Any) -> str:
        with pytest.raises(CrosswindError) as caught:
            model(folder, **knobs).answer(ROWS, digits, CLASSES)
        return str(caught.value)

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    refusal = refused("owner/name", revision="0" * 40)
    assert "is not in the hub's cache and cannot be downloaded" in refusal
    assert "name a folder with its files" in refusal
    assert "the files in" in refused(folders["llava"], path_sha256="0" * 64)
    intact_folder = write_llava(tmp_path / "whole")
    tensors = load_file(intact_folder / "model.safetensors")
    gone = next(name for name in tensors if "multi_modal_projector" in name)
    save_file(
        {name: value for name, value in tensors.items() if name != gone},
        intact_folder / "model.safetensors",
        {"format": "pt"},
    )
    assert "do not fit its config.json: they lack" in refused(intact_folder)
    (intact_folder / "model.safetensors").write_bytes(b"nothing")
    assert "cannot be read as a vision-language model" in refused(
        intact_folder, batch=1, dtype="float32"
    )
    broken = write_llava(tmp_path / "broken")
    assert "the model's processor does not take the prompt" in refused(
        broken, format="{prompt} {image} {image}"
    )


@pytest.mark.parametrize(
    ("has", "dtype", "computed"),
    [(False, "auto", "float32"), (False, "bfloat16", "bfloat16"), (True, "auto", "bfloat16")],
)
def test_what_is_stored_in_bfloat16_is_computed_so_only_where_the_processor_can(
    has: bool, dtype: str, computed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it is asked for: the default takes what is fast and loses nothing."""
    from transformers import LlavaForConditionalGeneration

    from crosswind.models.language import image_text

    monkeypatch.setattr(image_text, "has_bfloat16", lambda: has)
    stored = write_llava(tmp_path / "stored")
    LlavaForConditionalGeneration.from_pretrained(stored, dtype=torch.bfloat16).save_pretrained(
        stored
    )
    loaded = image_text.load.__wrapped__(str(stored), None, None, False, dtype, False, "cpu")
    assert loaded.model.dtype == getattr(torch, computed)
