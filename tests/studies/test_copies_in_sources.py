"""Copies of a row never both train and test, whatever source they come from; what is not known of
them is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from PIL import Image

import crosswind as cw
from crosswind.core.errors import CrosswindError, InputError
from crosswind.core.types import InputSpec
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.contents import PROBE, FileContents, names_of, number_hashes
from crosswind.data.dataset import AttributedDataset
from crosswind.execution.running import check_ready
from crosswind.shifts.split import Roles, SetPlan, SplitPlan, default_sets, plan_counts
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import study_from

N = 80


def pixels(n: int = N, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)


def twice(values: Any) -> Any:
    """Every row, and far from it the same row again, in another order."""
    return np.concatenate([values, values[::-1]])


LABELS = twice(np.array(["gull", "tern"] * (N // 2))).tolist()
PLACES = twice(np.array(["sea", "sea", "land", "land"] * (N // 4))).tolist()
FRAME = {"bird": LABELS, "place": PLACES}


def written(folder: Path, pictures: np.ndarray, names: list[str]) -> list[str]:
    for name, picture in zip(names, pictures, strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / name)
    return names


def of_table(folder: Path) -> AttributedDataset:
    names = written(folder, twice(pixels()), [f"{i}.png" for i in range(2 * N)])
    polars.DataFrame({"path": names, **FRAME}).write_csv(folder / "rows.csv")
    return cw.load("table", path=str(folder / "rows.csv"), images=str(folder), size=8)


def of_folder(folder: Path) -> AttributedDataset:
    top = folder / "top"
    written(
        top,
        twice(pixels()),
        [f"{p}/{b}/{i}.bmp" for i, (b, p) in enumerate(zip(LABELS, PLACES, strict=True))],
    )
    return cw.load("image-folder", path=str(top), levels=["place", "bird"], size=8)


def of_features_file(folder: Path) -> AttributedDataset:
    np.save(folder / "x.npy", twice(np.random.default_rng(0).normal(size=(N, 6))))
    polars.DataFrame(FRAME).write_csv(folder / "rows.csv")
    return cw.load("features", path=str(folder / "rows.csv"), features=str(folder / "x.npy"))


def of_columns(folder: Path) -> AttributedDataset:
    x = twice(np.random.default_rng(0).normal(size=(N, 3)))
    polars.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], **FRAME}).write_parquet(
        folder / "rows.parquet"
    )
    return cw.load("features", path=str(folder / "rows.parquet"), numbers=["a", "b", "c"])


def of_whole_numbers(folder: Path) -> AttributedDataset:
    np.save(folder / "x.npy", twice(np.random.default_rng(0).integers(0, 17, size=(N, 64))))
    polars.DataFrame(FRAME).write_csv(folder / "rows.csv")
    return cw.load("features", path=str(folder / "rows.csv"), features=str(folder / "x.npy"))


def of_arrays(folder: Path) -> AttributedDataset:
    return cw.from_frame(FRAME, twice(pixels()))


def of_torch(folder: Path) -> AttributedDataset:
    samples = [
        (picture, int(bird == "tern"))
        for picture, bird in zip(twice(pixels()), LABELS, strict=True)
    ]
    return cw.from_torch(samples, {"place": PLACES, "bird": LABELS})


def of_texts(folder: Path) -> AttributedDataset:
    texts = twice(np.array([f"number {i} of the birds" for i in range(N)], dtype=object))
    polars.DataFrame({"text": texts.tolist(), **FRAME}).write_csv(folder / "rows.csv")
    return cw.load("texts", path=str(folder / "rows.csv"))


def of_hugging_face(folder: Path) -> AttributedDataset:
    datasets = pytest.importorskip("datasets")
    names = written(folder / "files", twice(pixels()), [f"{i}.png" for i in range(2 * N)])
    cells = [{"bytes": (folder / "files" / name).read_bytes(), "path": None} for name in names]
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "bird": datasets.Value("string"),
            "place": datasets.Value("string"),
        }
    )
    datasets.Dataset.from_dict({"image": cells, **FRAME}, features=features).to_parquet(
        str(folder / "rows.parquet")
    )
    return cw.load(
        "huggingface", path=str(folder / "rows.parquet"), columns=["bird", "place"], size=8
    )


SOURCES = [
    of_table,
    of_folder,
    of_features_file,
    of_columns,
    of_whole_numbers,
    of_arrays,
    of_torch,
    of_texts,
    of_hugging_face,
]


def held(dataset: AttributedDataset, rows: np.ndarray) -> set[bytes]:
    inputs = dataset.inputs(rows)
    return {
        str(row_input).encode()
        if inputs.dtype == object
        else np.ascontiguousarray(row_input).tobytes()
        for row_input in inputs
    }


@pytest.mark.parametrize("made", SOURCES)
def test_no_copy_both_trains_and_tests(
    made: Callable[[Path], AttributedDataset], tmp_path: Path
) -> None:
    dataset = made(tmp_path)
    split = cw.split(dataset, "bird", ["place"], test=0.25, seed=1)
    train, test = held(dataset, split.train.rows), held(dataset, split.evaluation["test"].rows)
    validation = held(dataset, split.validation["validation"].rows)
    assert len(train) > 20 and len(test) > 10 and len(validation) > 5
    assert not train & test and not train & validation and not validation & test
    sentences = [text for text in split.report["warnings"] if "other rows hold too" in text]
    row_words = {"text": "texts", "image": "pictures", "features": "rows of numbers"}[
        dataset.check_inputs().kind
    ]
    assert sentences == [
        f"{dataset.name}: {2 * N} rows hold {N} {row_words} that other rows hold too; each has one role"
    ]


def test_the_same_bytes_in_two_folders_train_or_test(tmp_path: Path) -> None:
    for name in "ab":
        written(tmp_path / name, pixels(), [f"{LABELS[i]}/{name}{i}.png" for i in range(N)])
    written(tmp_path / "b", pixels(10, seed=5), [f"gull/new{i}.png" for i in range(10)])
    first, second = (cw.load("image-folder", path=str(tmp_path / name), size=8) for name in "ab")
    study = study_from(
        {
            "data": {
                name: {
                    "source": "image-folder",
                    "options": {"path": str(tmp_path / name), "size": 8},
                    "label": "class",
                    "attributes": [],
                }
                for name in "ab"
            },
            "shifts": {"none": []},
            "sizes": {"equal": {"a": "equal"}},
            "sets": {
                "validation": {"role": "validation", "law": "train"},
                "test": {"role": "test"},
                "b": {"role": "test", "source": "b", "draw": "all"},
            },
            "models": ["mlp"],
        }
    )
    planned = make_plan(study)
    in_test = N // 5
    assert planned.draws[0].test_rows == in_test
    assert any(
        f"b: {N - in_test:,} rows are left out, as their pictures have another role elsewhere"
        in text
        for text in planned.warnings
    )
    assert first.files is not None and second.files is not None
    ours, theirs = names_of([first.files, second.files])
    assert len(np.intersect1d(ours, theirs)) == N


def test_rows_that_all_hold_one_picture_leave_none_to_train_on() -> None:
    frame = {
        "label": [f"l{row % 2}" for row in range(40)],
        "site": [f"s{row // 2 % 2}" for row in range(40)],
    }
    dataset = cw.from_frame(frame, np.zeros((40, 4, 4, 3), dtype=np.uint8))
    with pytest.raises(
        InputError,
        match="roles: leave no row to train on: the 40 rows of frame hold one and the same picture",
    ):
        cw.split(dataset, "label", ["site"], test=4)


def test_an_official_split_that_tears_copies_is_refused(tmp_path: Path) -> None:
    frame = {**FRAME, "split": ["train"] * N + ["test"] * N}
    dataset = cw.from_frame(frame, twice(pixels()))
    study = {
        "data": {
            "own": {
                "source": dataset,
                "label": "bird",
                "attributes": ["place"],
                "roles": {"official": {"column": "split", "train": ["train"], "test": ["test"]}},
            }
        },
        "shifts": {"none": []},
        "models": ["mlp"],
    }
    with pytest.raises(
        InputError,
        match=(
            r"overlap: the official split of 'frame' puts 80 pictures in two parts; leave rows out"
        ),
    ):
        cw.plan(study)


def test_labels_that_contradict_each_other_are_named() -> None:
    labels = [*LABELS[:-3], "gull", "gull", "gull"]
    assert labels[-3:] != LABELS[-3:]
    split = cw.split(cw.from_frame({**FRAME, "bird": labels}, twice(pixels())), "bird", ["place"])
    sentences = [text for text in split.report["warnings"] if "different labels" in text]
    wrong = [row for row in range(2 * N) if labels[row] != labels[2 * N - 1 - row] and row < N]
    assert (
        sentences
        and f"frame: {len(wrong)} of these stand in rows of different labels, such as rows "
        in sentences[0]
    )


@pytest.mark.parametrize(
    "numbers",
    [
        np.random.default_rng(0).integers(0, 2, (400, 6)),
        np.random.default_rng(0).integers(18, 90, (400, 1)),
        np.random.default_rng(0).integers(0, 10, (400, 2)),
        np.eye(5)[np.random.default_rng(0).integers(0, 5, 400)],
        np.where(
            np.random.default_rng(0).random((400, 1)) < 0.7,
            0,
            np.random.default_rng(1).integers(0, 2, (400, 30)),
        ),
        np.round(np.random.default_rng(0).normal(size=(400, 2)), 1),
    ],
    ids=["binary", "ages", "two counts", "one hot", "no symptom at all", "rounded"],
)
def test_rows_that_are_equal_by_chance_are_no_copies(numbers: np.ndarray) -> None:
    assert len(np.unique(numbers, axis=0)) < len(numbers)
    assert number_hashes(numbers.astype(np.float32)) is None


def test_what_equal_numbers_do_not_tell_is_said(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 2, (2 * N, 4)))
    polars.DataFrame(FRAME).write_csv(tmp_path / "rows.csv")
    dataset = cw.load("features", path=str(tmp_path / "rows.csv"), features=str(tmp_path / "x.npy"))
    split = cw.split(dataset, "bird", ["place"])
    assert any(
        "rows of equal numbers are not taken as copies" in note for note in split.report["notes"]
    )


def test_numbers_that_differ_have_different_hashes() -> None:
    rows = np.zeros((2000, 40), dtype=np.float32)
    rows[np.arange(2000), np.arange(2000) % 40] = 1 + np.arange(2000) // 40
    hashes = number_hashes(rows)
    assert hashes is not None and len(np.unique(hashes)) == 2000
    first, second = (
        number_hashes(np.array([[0.0, 1.0]], np.float32)),
        number_hashes(np.array([[-0.0, 1.0]], np.float32)),
    )
    assert first is not None and second is not None and first[0] == second[0]


def test_a_file_is_read_no_further_than_it_takes_to_tell_it_apart(tmp_path: Path) -> None:
    draw, read = np.random.default_rng(0), []
    contents_held = [draw.bytes(3 * PROBE) for _ in range(4)] + [
        draw.bytes(3 * PROBE + 1),
        draw.bytes(100),
        draw.bytes(101),
    ]
    contents_held[3] = contents_held[2][:10] + b"x" + contents_held[2][11:]  # the middles are equal
    contents_held += [contents_held[0]]
    for i, data in enumerate(contents_held):
        (tmp_path / str(i)).write_bytes(data)

    def opened(row: int) -> Path:
        read.append(row)
        return tmp_path / str(row)

    files = FileContents(np.array([len(data) for data in contents_held]), opened, str)
    names = files.names()
    assert names[0] == names[7] and len(np.unique(names)) == 7
    assert sorted(read) == [
        0,
        0,
        1,
        2,
        2,
        3,
        3,
        7,
        7,
    ]  # sizes of their own are not read, other middles once
    assert (files.names() == names).all() and len(read) == 9


def test_a_file_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    names = written(tmp_path, pixels(4), [f"{i}.bmp" for i in range(4)])
    polars.DataFrame({"path": names, "bird": ["gull", "tern"] * 2, "place": ["sea"] * 4}).write_csv(
        tmp_path / "rows.csv"
    )
    dataset = cw.load("table", path=str(tmp_path / "rows.csv"), images=str(tmp_path), size=8)
    (tmp_path / "2.bmp").unlink()
    with pytest.raises(
        CrosswindError, match=r"rows.csv, row 3: '2.bmp' cannot be read: No such file"
    ):
        cw.split(dataset, "bird", ["place"])


def test_a_load_reads_no_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileContents, "read_to", lambda *_: pytest.fail("a file was read"))
    assert of_table(tmp_path).n_rows == 2 * N


def test_sets_of_a_validation_source_are_dealt_by_contents_too() -> None:
    first = cw.from_frame({"bird": LABELS[:N], "place": PLACES[:N]}, pixels(), name="one")
    second = cw.from_frame(
        {"bird": LABELS[:N], "place": PLACES[:N]}, pixels()[:, ::-1].copy(), name="other"
    )
    same = cw.from_frame({"bird": LABELS[:N], "place": PLACES[:N]}, pixels(), name="same")
    for beside, lacking in ((second, 0), (same, N - N // 5)):
        plan = SplitPlan(
            label="bird",
            attributes=("place",),
            roles=Roles(test=0.2, validation=0.2, official=None),
            sets={**default_sets(), "far": SetPlan("test", source=beside.name)},
        )
        counts = plan_counts({"one": first, beside.name: beside}, "one", plan)
        assert counts.set_rows["far"] <= N - lacking
        assert any("left out" in text for text in counts.warnings) == bool(lacking)


def test_equal_pixels_in_other_files_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    pictures, place_names = pixels(N), PLACES[:N]
    names = written(tmp_path, pictures, [f"{i}.png" for i in range(N)])
    copies = written(tmp_path, pictures, [f"copy{i}.bmp" for i in range(N)])
    frame = {"path": [*names, *copies], "bird": LABELS[:N] * 2, "place": place_names * 2}
    polars.DataFrame(frame).write_csv(tmp_path / "rows.csv")
    study: dict[str, Any] = {
        "data": {
            "own": {
                "source": "table",
                "options": {"path": str(tmp_path / "rows.csv"), "images": str(tmp_path), "size": 8},
                "label": "bird",
                "attributes": ["place"],
            }
        },
        "shifts": {"none": []},
        "models": ["mlp"],
        "seeds": 1,
        "training": {"steps": 2, "batch": 8, "validate_every": 2},
    }
    planned = cw.plan(study)
    assert any(
        "equal pixels in files of different bytes cannot be hashed before planning" in note
        for note in planned.notes
    )
    with pytest.raises(
        InputError,
        match=(
            r"data.own: [\d,]+ pictures that test have the pixels of pictures that train or"
            r" validate"
        ),
    ):
        cw.run_study(study, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    copy = cw.prepare(
        "table",
        path=str(tmp_path / "rows.csv"),
        images=str(tmp_path),
        size=8,
        root=str(tmp_path / "root"),
    )
    assert copy.is_dir()
    study["data"]["own"]["options"]["root"] = str(tmp_path / "root")
    warnings = cw.plan(study).warnings  # the remedy that the sentence names
    assert any(
        f"{2 * N} rows hold {N} pictures that other rows hold too" in text for text in warnings
    )
    check_ready(cw.plan(study), 1)


def test_what_a_program_made_itself_is_not_known_and_that_is_said() -> None:
    table = AttributeTable(
        (Attribute("bird", ("gull", "tern")), Attribute("place", ("land", "sea"))),
        np.arange(80).reshape(2, 40) % 2,
    )
    dataset = AttributedDataset("mine", table, pixels(40).__getitem__, InputSpec.image(8, 8, 3))
    own_entry = {"source": dataset, "label": "bird", "attributes": []}
    planned = cw.plan({"data": {"own": own_entry}, "shifts": {"none": []}, "models": ["mlp"]})
    assert any(
        note.startswith("own: what its rows hold cannot be hashed before planning")
        for note in planned.notes
    )
