"""CLIP asked with prompts and fine-tuned from there, on a tiny random one in a folder as published
ones are."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.tiny_clip import clip_folder, write_clip

import crosswind as cw
from crosswind.core.errors import DataError, InputError
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.models.build import build_model, normalised
from crosswind.models.language import clip
from crosswind.models.language.clip import Clip
from crosswind.models.language.feature_cache import FeatureCache, image_keys
from crosswind.models.language.preprocess import Preprocess
from crosswind.studies.axes import models_of
from crosswind.studies.spec import study_from

NAMES = ("zero", "one", "two")


@pytest.fixture(autouse=True)
def own_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSWIND_FEATURES", str(tmp_path / "features"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "features"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images passed the image encoder, a number for every call."""
    counts_seen: list[int] = []
    real = clip._Network.image_features

    def features(self: Any, images: Any) -> Any:
        hook = self.model.vision_model.register_forward_pre_hook(
            lambda _, __: counts_seen.append(min(self.batch, len(images)))
        )
        try:
            return real(self, images)
        finally:
            hook.remove()

    monkeypatch.setattr(clip._Network, "image_features", features)
    return counts_seen


class Rows:
    """As much of a set as an answer reads."""

    def __init__(self, rows: Any) -> None:
        self.rows = np.asarray(rows)


def pictures(n: int, height: int = 32, width: int = 32, channels: int = 3, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(
        0, 256, (n, height, width, channels), dtype=np.uint8
    )


def held(images: Any, name: str = "held") -> AttributedDataset:
    codes = np.zeros((1, len(images)), dtype=np.uint8)
    table = AttributeTable((Attribute("digit", NAMES),), codes)
    return AttributedDataset(
        name, table, lambda rows: images[rows], InputSpec.image(*images.shape[1:])
    )


def asked(model: Clip, given: Any, rows: Any = None, names: Any = NAMES) -> Any:
    """Answers and logits for images, or for a data set of them."""
    dataset = given if isinstance(given, AttributedDataset) else held(given)
    chosen: Any = Rows(np.arange(dataset.n_rows) if rows is None else rows)
    return model.answer(chosen, dataset, names)


def said(images: Any, rows: Any = None, names: Any = NAMES, **knobs: Any) -> Any:
    return asked(Clip(clip_folder(), **knobs), images, rows, names)


def by_the_library(images: Any, texts: list[str]) -> tuple[Any, Any]:
    """Logits and features as transformers itself makes them."""
    from transformers import AutoTokenizer, CLIPImageProcessor, CLIPModel

    loaded: Any = CLIPModel.from_pretrained(clip_folder())
    model = loaded.eval()
    pixels = CLIPImageProcessor.from_pretrained(clip_folder())(
        list(images), return_tensors="pt", input_data_format="channels_last"
    )
    tokens = AutoTokenizer.from_pretrained(clip_folder())(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        out = model(
            input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"], **pixels
        )
    return out.logits_per_image.numpy(), out.image_embeds.numpy()


@pytest.mark.parametrize("shape", [(32, 32), (48, 64), (65, 47), (20, 28)])
def test_logits_are_those_of_the_library(shape: tuple[int, int]) -> None:
    images = pictures(5, *shape)
    answer, logits = said(images)
    theirs, features = by_the_library(images, [f"a photo of a {name}." for name in NAMES])
    assert logits.dtype == np.float32 and answer.tolist() == logits.argmax(1).tolist()
    assert np.abs(logits - theirs).max() < 1e-2
    net = Clip(clip_folder())._network()
    assert np.abs(net.image_features(images) - features).max() < 1e-3


@pytest.mark.parametrize("shape", [(32, 32), (47, 65), (100, 40), (17, 20)])
def test_pixels_are_those_of_the_processor(shape: tuple[int, int]) -> None:
    from transformers import CLIPImageProcessor

    processor = CLIPImageProcessor(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )
    images = pictures(4, *shape)
    theirs = processor(list(images), return_tensors="pt", input_data_format="channels_last")[
        "pixel_values"
    ]
    x = normalised(torch.from_numpy(images).permute(0, 3, 1, 2), torch.float32, False)
    ours = Preprocess.of(processor.to_dict())(x)
    assert ours.shape == theirs.shape
    assert (
        float(((ours - theirs).abs() * torch.tensor(processor.image_std).view(1, 3, 1, 1)).max())
        < 1e-2
    )


def test_prompts_are_a_mean_of_directions_and_names_are_spoken() -> None:
    net = Clip(clip_folder())._network()
    first, two = (
        net.text_features(("a {label}",), ("one", "two")),
        net.text_features(("the digit {label} .",), ("one", "two")),
    )
    summed = first + two
    together = net.text_features(("a {label}", "the digit {label} ."), ("one", "two"))
    assert np.allclose(together, summed / np.linalg.norm(summed, axis=1, keepdims=True), atol=1e-6)
    images = pictures(3)
    plain = said(images, names=("zero", "one", "the digit"))[1]
    mapped = Clip(clip_folder(), names={"a0": "zero", "b": "one"})
    assert np.array_equal(plain, asked(mapped, images, names=("a0", "b", "the_digit"))[1])


def test_images_of_one_channel_are_grey() -> None:
    grey = pictures(4, channels=1)
    assert np.allclose(said(grey)[1], said(np.repeat(grey, 3, axis=3))[1], atol=1e-5)


@pytest.mark.slow
def test_ten_thousand_images_pass_once_for_any_number_of_prompts_and_shifts(
    counted: list[int],
) -> None:
    """Of 10,000 images the features are computed once: for prompts, for sets of other shifts, and
    in a cache opened anew."""
    images = pictures(10_000, 4, 4)
    dataset, everything = held(images), np.arange(10_000)
    for prompts in (["a {label}"], ["the {label}", "a photo of {label}"], ["digit {label}"]):
        for rows in (everything, everything[::-1], everything[5_000:], np.array([7, 7, 3])):
            asked(Clip(clip_folder(), prompts=prompts, batch=500), dataset, rows)
    assert (
        sum(counted) >= 10_000 and len(counted) <= 10_000 // 500 + 10
    )  # each portion of 1,024 is filled up
    before = len(counted)
    from crosswind.models.language import feature_cache

    feature_cache._cache.cache_clear()  # as another process finds it
    asked(Clip(clip_folder(), prompts=["one {label}"], batch=500), held(images, "other"))
    assert len(counted) == before
    changed = images.copy()
    changed[5] = 255 - changed[5]
    said(changed, batch=500)
    assert len(counted) == before + 1


def test_an_images_features_do_not_depend_on_those_beside_it() -> None:
    images = pictures(70)
    net = Clip(clip_folder())._network()
    assert np.array_equal(net.image_features(images)[66:], net.image_features(images[66:]))
    assert np.array_equal(said(images)[1][41:42], said(images, rows=[41])[1])


def computing(root: str, log: str) -> None:
    def compute(images: Any) -> Any:
        with Path(log).open("a") as file:
            file.write(f"{len(images)}\n")
        return images.reshape(len(images), -1)[:, :4].astype(np.float32)

    FeatureCache(Path(root), "key").of_images(pictures(3000, 4, 4), compute)


@pytest.mark.slow
def test_processes_share_what_one_of_them_computed(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [
        context.Process(target=computing, args=(str(tmp_path), str(tmp_path / "log")))
        for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert sum(int(line) for line in (tmp_path / "log").read_text().split()) == 3000


def test_what_is_kept_is_bounded_and_a_damaged_file_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def compute(images: Any) -> Any:
        calls.append(len(images))
        return np.full((len(images), 1024), images[0, 0, 0, 0], dtype=np.float32)

    first, second = pictures(20, seed=1), pictures(20, seed=2)
    monkeypatch.setenv(
        "CROSSWIND_FEATURES_GIB", str(100_000 / 2**30)
    )  # one file of 20 x 4 kB, not two
    FeatureCache(tmp_path, "a").of_images(first, compute)
    FeatureCache(tmp_path, "b").of_images(second, compute)
    assert [path.parent.name for path in tmp_path.glob("*/*.npy")] == ["b"] and calls == [20, 20]
    (kept_file,) = tmp_path.glob("b/*.npy")
    kept_file.write_bytes(kept_file.read_bytes()[:100])
    FeatureCache(tmp_path, "b").of_images(second, compute)
    assert calls == [20, 20, 20]
    monkeypatch.setenv("CROSSWIND_FEATURES_GIB", "much")
    with pytest.raises(InputError, match="CROSSWIND_FEATURES_GIB: must be a number of GiB above 0"):
        FeatureCache(tmp_path, "c").of_images(first, compute)


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CROSSWIND_FEATURES", str(tmp_path / "file"))
    with pytest.raises(DataError, match="name a folder that can be written in CROSSWIND_FEATURES"):
        said(pictures(2))


def test_keys_tell_pixels_and_shapes_apart() -> None:
    images = pictures(2, 4, 6)
    keys = [*image_keys(images), *image_keys(images.reshape(2, 6, 4, 3))]
    assert len(set(keys)) == 4 and image_keys(images[:1]) == keys[:1]


# -- what is refused -------------------------------------------------------------------------------


def planned(tmp_path: Path | None = None, **knobs: Any) -> dict[str, Any]:
    values = {
        "name": "asked",
        "data": {"digits": {"source": "digits", "label": "digit", "attributes": ["ink"]}},
        "shifts": {"none": []},
        "models": {"clip": {"path": clip_folder(), **knobs}},
        "methods": ["erm"],
    }
    return models_of(study_from(values), tmp_path)["clip"]


def test_a_folder_counts_by_its_files_and_not_by_its_place(tmp_path: Path) -> None:
    plan_found = planned(tmp_path)
    assert (
        plan_found["files"] == {}
        and "path" not in plan_found["keyed"]
        and len(plan_found["keyed"]["path_sha256"]) == 64
    )
    copy = write_clip(tmp_path / "copy")
    assert planned(tmp_path, path="copy")["keyed"] == plan_found["keyed"] and planned(
        tmp_path, path="copy"
    )["knobs"]["path"] == str(copy)
    assert (
        planned(tmp_path, path=str(write_clip(tmp_path / "other", seed=1)))["keyed"]
        != plan_found["keyed"]
    )
    assert "files" not in planned(tuned=True)


@pytest.mark.parametrize(
    ("knobs", "field", "words"),
    [
        ({"prompts": ["a photo"]}, "prompts", "must be a list of texts with {label} in each"),
        ({"prompts": []}, "prompts", "must be a list of texts"),
        ({"prompts": "a {label}"}, "prompts", "must be a list of texts"),
        ({"names": {"0": 1}}, "names", "must be texts by the names of classes"),
        ({"path": "owner/name"}, "revision", "give the commit that is meant"),
        ({"path": "/nowhere"}, "path", "there is no folder '/nowhere'"),
        ({"path_sha256": "0"}, "path_sha256", "the sha256 of"),
    ],
)
def test_what_cannot_be_asked_is_refused_when_it_is_planned(
    knobs: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(InputError) as error:
        planned(**knobs)
    assert f"models.clip.{field}" in str(error.value) and words in str(error.value)


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("*.safetensors", "weights in safetensors"),
        ("tokenizer.json", "become tokens"),
        ("p*.json", "are resized"),
    ],
)
def test_a_folder_that_lacks_a_part_is_refused(tmp_path: Path, gone: str, words: str) -> None:
    for path in write_clip(tmp_path).glob(gone):
        path.unlink()
    with pytest.raises(InputError, match=words):
        planned(path=str(tmp_path))


def test_another_kind_of_model_is_refused(tmp_path: Path) -> None:
    write_clip(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(InputError, match="kind of model"):
        planned(path=str(tmp_path))


def test_what_is_seen_when_it_is_asked_is_one_sentence(tmp_path: Path) -> None:
    images = pictures(2)
    with pytest.raises(InputError, match="tokens, and the model reads 12"):
        said(images, prompts=["a a a a a a a a a a a a {label}"])
    with pytest.raises(InputError, match="are no classes"):
        asked(Clip(clip_folder(), names={"cat": "x"}), images)
    with pytest.raises(InputError, match="is not in the hub's cache and cannot be downloaded"):
        asked(Clip("owner/name", revision="0" * 40), images)
    (weights,) = write_clip(tmp_path).glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-50])
    with pytest.raises(InputError, match="cannot be read"):
        asked(Clip(str(tmp_path)), images)


# -- in studies and in training --------------------------------------------------------------------


STUDY: dict[str, Any] = {
    "name": "asked",
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
    "models": {},
    "methods": ["erm"],
    "training": {"steps": 2, "validate_every": 2, "batch": 16},
    "seeds": 1,
}


@pytest.mark.slow
def test_a_study_asks_with_prompts_fine_tunes_and_probes(
    tmp_path: Path, counted: list[int]
) -> None:
    clip_entry = {"model": "clip", "path": clip_folder()}
    models: dict[str, Any] = {
        "general": clip_entry,
        "tailored": {
            **clip_entry,
            "prompts": ["the digit {label} .", "a photo of the number {label} ."],
            "names": {"0": "zero"},
        },
        "tuned": {**clip_entry, "tuned": True},
        "probe": {"model": "linear-probe", "of": "clip", "settings": {"path": clip_folder()}},
    }
    study_results = cw.run_study({**STUDY, "models": models}, tmp_path / "out", workers=1)
    rows = [row for row in study_results.rows if row["set"] == "test"]
    assert {row["status"] for row in rows} == {"finished"}
    assert {row["model"] for row in rows} >= {"tuned", "probe"} and len(
        {json.dumps(row["metrics"]["nll"]) for row in rows}
    ) >= 4


def test_fine_tuning_begins_as_the_prompts_answer() -> None:
    images = pictures(6, 40, 36)
    model: Any = build_model(
        "clip", {"path": clip_folder(), "tuned": True}, InputSpec.image(40, 36, 3), NAMES, 0
    ).eval()
    x = normalised(torch.from_numpy(images).permute(0, 3, 1, 2), torch.float32, False)
    with torch.inference_mode():
        logits, taps = model(x), model.taps(x, ["block1"])
    assert np.allclose(logits.numpy(), said(images)[1], atol=1e-4)
    assert model.stages == ("patches", "block1", "block2") and taps["block1"].shape == (6, 17, 32)
    assert torch.equal(taps["logits"], logits) and torch.allclose(
        taps["features"].norm(dim=1), torch.ones(6)
    )
    assert all(parameter.requires_grad for parameter in model.parameters())
    model(x).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_probe_reads_what_the_answers_left(counted: list[int]) -> None:
    images = pictures(12)
    said(images)
    passed = len(counted)
    from crosswind.models.networks.encoding import encoded

    knobs = {"of": "clip", "settings": {"path": clip_folder()}}
    features = encoded(held(images), "linear-probe", knobs, 0, "cpu", "fp32")
    pictures_given = features.inputs(np.arange(12))
    assert pictures_given.shape == (12, 16) and np.allclose(
        np.linalg.norm(pictures_given, axis=1), 1, atol=1e-6
    )
    assert len(counted) == passed == 1
