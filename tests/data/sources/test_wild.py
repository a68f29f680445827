"""The sources in the wild, on files in their original layouts: as archives and as folders, with
their units and official splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.data import wild_files as wild
from tests.data.picture_files import written

from crosswind.core.errors import CrosswindError, DataError
from crosswind.core.registry import listing, load
from crosswind.data.dataset import AttributedDataset
from crosswind.data.imagenet_classes import groups, onto_classes, outputs_of, subset, synsets
from crosswind.data.prepared import prepare
from crosswind.data.sources.base import PreparedSource, open_source
from crosswind.shifts.draw import ALL_ROWS
from crosswind.shifts.split import Roles, SetPlan, SplitPlan, make_split


@dataclass(frozen=True)
class Wild:
    """The files of a source, its archives and which files are in them, and what is to be read.

    `order`: the pictures, by their place among those written, in the order of the rows. `units`:
    equal where rows belong together.
    """

    files: Callable[[], wild.Files]
    archives: dict[str, Callable[[str], bool]]
    order: list[int]
    columns: dict[str, list[str]]
    units: list[int] | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def everything(name: str) -> bool:
    return True


S = synsets()
WILD = {
    "celeba": Wild(
        wild.celeba,
        {"img_align_celeba.zip": lambda name: name.startswith("img_align")},
        list(range(6)),
        {
            "Male": [
                "female",
                "male",
                "female",
                "female",
                "male",
                "female",
            ],  # a = 20: 1 where 20 + i is a multiple of three
            "Smiling": ["no", "no", "yes", "no", "no", "yes"],
            "split": ["train", "train", "valid", "valid", "test", "test"],
        },
        [0, 0, 1, 1, 2, 2],
    ),
    "deepfashion": Wild(
        wild.deepfashion,
        {"img.zip": lambda name: name.startswith("img/")},
        list(range(6)),
        {
            "category": [f"Category{i + 1}" for i in range(6)],
            "texture": ["floral", "graphic", "striped", "embroidered", "pleated", "other"],
            "length": ["maxi_length", "mini_length", "no_dress"] * 2,
            "split": ["train", "train", "val", "val", "test", "test"],
        },
        [1, 1, 2, 2, 0, 0],
    ),
    "camelyon17": Wild(
        wild.camelyon17,
        {"camelyon17_v1.0.tar.gz": everything},
        list(range(10)),
        {
            "tumor": ["no", "yes"] * 5,
            "hospital": list("0011223344"),
            "split": (
                ["train"] * 2 + ["val"] * 2 + ["test"] * 2 + ["train", "id_val"] + ["train"] * 2
            ),
        },
        [0, 0, 1, 1, 2, 2, 3, 3, 4, 4],
    ),
    "iwildcam": Wild(
        wild.iwildcam,
        {"iwildcam_v2.0.tar.gz": everything},
        list(range(8)),
        {
            "species": [
                ("empty", "mazama temama 1", "mazama temama 2")[label]
                for _, _, label in wild.IWILDCAM
            ],
            "location": [str(location) for _, location, _ in wild.IWILDCAM],
            "split": [split for split, _, _ in wild.IWILDCAM],
        },
        [location for _, location, _ in wild.IWILDCAM],
    ),
    "fmow": Wild(
        wild.fmow,
        {"fmow_v1.1.tar.gz": everything},
        [0, 3, 4, 5, 6],
        {
            "category": ["airport", "zoo", "airport", "zoo", "airport"],
            "region": ["Europe", "Americas", "Americas", "Asia", "Other"],
            "year": ["2010", "2012", "2013", "2002", "2016"],
            "split": ["train", "id_val", "val", "id_test", "test"],
        },
        [2, 3, 4, 0, 1],
    ),
    "imagenet-c": Wild(
        lambda: wild.all_c()["noise.tar"] | wild.all_c()["digital.tar"],
        {name: set(files).__contains__ for name, files in wild.all_c().items()},
        # Corruptions in our order, then severity, then class: the files were written with class 3
        # before class 0.
        [1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10],
        {
            "class": [S[0], S[3]] * 6,
            "corruption": ["gaussian-noise"] * 4 + ["shot-noise"] * 4 + ["elastic"] * 4,
            "severity": ["1", "1", "5", "5"] * 3,
        },
        [0, 1] * 6,
        {"corruptions": ["elastic", "shot-noise", "gaussian-noise"], "severities": [5, 1]},
    ),
    "imagenet-v2": Wild(
        wild.imagenet_v2,
        {"imagenetv2-matched-frequency.tar.gz": everything},
        [0, 2, 1],
        {"class": [S[0], S[2], S[10]]},
    ),
    "imagenet-sketch": Wild(
        wild.imagenet_sketch,
        {"ImageNet-Sketch.zip": everything},
        [2, 3, 0, 1],
        {"class": [S[1], S[1], S[5], S[5]]},
    ),
    "imagenet-r": Wild(
        wild.imagenet_r,
        {"imagenet-r.tar": everything},
        [2, 0, 3, 1],
        {"class": [S[1], S[2], S[1], S[2]], "rendition": ["art", "art", "toy", "toy"]},
    ),
    "imagenet-a": Wild(
        wild.imagenet_a, {"imagenet-a.tar": everything}, [1, 0], {"class": [S[15], S[987]]}
    ),
    "objectnet": Wild(wild.objectnet, {}, [1, 0], {"class": ["alarm_clock", "chair"]}),
    "imagenet-vid": Wild(
        wild.imagenet_vid,
        {"imagenet_vid_ytbb_robust.tar.gz": everything},
        list(range(5)),
        {
            "class": ["turtle"] * 3 + ["domestic_cat"] * 2,
            "frame": ["neighbour", "anchor", "neighbour", "neighbour", "anchor"],
            "labels": ["one"] * 3 + ["several"] * 2,
        },
        [0, 0, 0, 1, 1],
    ),
    "ytbb": Wild(
        wild.ytbb,
        {"imagenet_vid_ytbb_robust.tar.gz": lambda name: name.endswith(".jpg")},
        [0, 4, 3],
        {
            "class": ["car", "car", "none"],
            "frame": ["anchor", "neighbour", "anchor"],
            "labels": ["several", "several", "one"],
        },
        [0, 0, 1],
    ),
}


def source(name: str, **settings: Any) -> PreparedSource:
    prepared_source = load("sources", name)(**{"size": 8, **WILD[name].settings, **settings})
    assert isinstance(prepared_source, PreparedSource)
    return prepared_source


def archived(name: str, folder: Path) -> Path:
    """The folder with the archives of a source, and the files that are in none of them beside
    these."""
    files, archives = WILD[name].files(), WILD[name].archives
    for archive, inside in archives.items():
        wild.packed(folder / archive, {file: data for file, data in files.items() if inside(file)})
    left = {
        file: data
        for file, data in files.items()
        if not any(inside(file) for inside in archives.values())
    }
    return written(folder, left)


def words(data: AttributedDataset, name: str) -> list[str]:
    values = data.attribute(name).values
    return [values[code] for code in data.table.column(name)]


def test_they_are_all_here_and_there_are_thirteen() -> None:
    homes = ("celeba", "deepfashion", "imagenet_family", "video_frames", "wilds")
    names = {entry.name for entry in listing("sources") if entry.module.rpartition(".")[2] in homes}
    assert names == set(WILD)
    assert len(WILD) == 13


def units_of(data: AttributedDataset) -> list[int] | None:
    """The unit of each row as a number from 0, None where rows have none."""
    if data.units is None:
        return None
    return list(np.unique(data.units, return_inverse=True)[1].tolist())


def check_colours(wild_files: Wild, pixels: NDArray[np.int64]) -> None:
    """Compare the middle of each picture with the colour that its file was written in."""
    pictures = [
        name for name in wild_files.files() if name.lower().endswith((".jpg", ".jpeg", ".png"))
    ]
    expected = np.array([wild.colour(pictures[number]) for number in wild_files.order])
    assert np.abs(pixels[:, 4, 4] - expected).max() <= 6  # JPEG
    assert len(np.unique(expected, axis=0)) == len(pixels)


@pytest.mark.parametrize("name", WILD)
def test_archive_and_folder_are_the_same_rows_and_the_copy_too(name: str, tmp_path: Path) -> None:
    wild_files = WILD[name]
    folder = written(tmp_path / "folder", wild_files.files())
    unpacked = source(name).read(folder)
    data = unpacked.dataset
    assert {column: words(data, column) for column in wild_files.columns} == wild_files.columns
    assert units_of(data) == wild_files.units
    rows = np.arange(data.n_rows)
    pixels = data.inputs(rows).astype(int)
    if name != "objectnet":  # its pictures have a border of another colour
        check_colours(wild_files, pixels)
    root = tmp_path / "root"
    prepared_source = source(name, root=str(root))
    originals = archived(name, tmp_path / "archive") if wild_files.archives else folder
    if wild_files.archives:
        packed = source(name).read(originals)
        assert packed.dataset.table.digest() == data.table.digest()
        assert packed.parts == unpacked.parts
        assert np.array_equal(packed.dataset.inputs(rows), pixels)
    prepare(prepared_source, originals=str(originals), accept_totals=True)
    copy = prepared_source.load()
    assert copy.table.digest() == data.table.digest()
    assert np.array_equal(copy.inputs(rows), pixels)
    assert units_of(copy) == wild_files.units


@pytest.mark.parametrize("name", WILD)
def test_what_is_missing_is_said_in_one_sentence_with_where_to_get_it(
    name: str, tmp_path: Path
) -> None:
    prepared_source = source(name)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError) as caught:
        prepare(prepared_source, originals=str(empty), root=str(tmp_path / "root"))
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert str(empty) in sentence
    assert name in sentence
    assert prepared_source.card.get in sentence
    assert "GB" in prepared_source.card.get
    assert "http" in prepared_source.card.get
    assert not (tmp_path / "root" / name).exists()
    unrelated = written(tmp_path / "other", {"a/b/c.txt": b"x"})
    with pytest.raises(DataError) as caught:
        prepare(prepared_source, originals=str(unrelated), root=str(tmp_path / "root"))
    assert "\n" not in str(caught.value)
    assert prepared_source.card.get in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, wild_files in WILD.items()
        if wild_files.archives and name not in ("imagenet-r",)
    ],
)
def test_every_picture_and_list_that_is_needed_is_missed(name: str, tmp_path: Path) -> None:
    """Of each kind of file one is taken away, emptied or made a page: the same rows, or a
    sentence."""
    files, prepared_source = WILD[name].files(), source(name)
    folder = written(tmp_path / "folder", files)
    full_digest = prepared_source.read(folder).dataset.table.digest()
    kinds = {
        Path(file).suffix.lower() + Path(file).name[:5]: file
        for file in files
        if "README" not in file
    }
    refused = 0
    for file in kinds.values():
        for data in (None, b"", b"<!DOCTYPE html><p>Log in"):
            (folder / file).unlink() if data is None else (folder / file).write_bytes(data)
            try:
                dataset = prepared_source.read(folder).dataset
                dataset.inputs(np.arange(dataset.n_rows))
                assert data is None or dataset.table.digest() == full_digest
            except DataError as error:
                refused += 1
                assert "\n" not in str(error)
            (folder / file).write_bytes(files[file])
    assert refused >= 2
    assert prepared_source.read(folder).dataset.table.digest() == full_digest


def changed(name: str, folder: Path, file: str, old: str, new: str) -> Path:
    files = WILD[name].files()
    listing_text = files[file].decode()
    assert old in listing_text
    return written(folder, files | {file: listing_text.replace(old, new, 1).encode()})


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "sentence"),
    [
        (
            "celeba",
            "list_attr_celeba.txt",
            "6\n",
            "7\n",
            "says that it has 7 rows, and has 6: it is cut short",
        ),
        (
            "celeba",
            "list_attr_celeba.txt",
            "6\n",
            "six\n",
            "should begin with a line that has the number of its rows",
        ),
        (
            "celeba",
            "list_attr_celeba.txt",
            "Male",
            "Man",
            "should name CelebA's forty attributes in their order, not '5_o_Clock",
        ),
        (
            "celeba",
            "list_attr_celeba.txt",
            "000003.jpg -1",
            "000003.jpg 0",
            "has not 1 or -1 for each of 40 attributes of '000003.jpg'",
        ),
        (
            "celeba",
            "list_eval_partition.txt",
            "000003.jpg 1",
            "000003.jpg 3",
            "has no number of '000003.jpg' of 0 to 2",
        ),
        (
            "celeba",
            "identity_CelebA.txt",
            "000003.jpg 2881",
            "000003.jpg",
            "should have a picture and a number a line, not '000003.jpg'",
        ),
        ("celeba", "identity_CelebA.txt", "000003.jpg 2881\n", "", "has no number of '000003.jpg'"),
        (
            "deepfashion",
            "Anno_fine/list_attr_cloth.txt",
            "solid",
            "plain",
            "does not name the 26 attributes of DeepFashion",
        ),
        (
            "deepfashion",
            "Anno_fine/val_attr.txt",
            "1 ",
            "1 1 ",
            "val_attr.txt, row 1 should have 26 numbers of 0 to 1",
        ),
        (
            "deepfashion",
            "Anno_fine/test_cate.txt",
            "5\n",
            "",
            "has 1 rows, and its list of pictures has 2",
        ),
        (
            "deepfashion",
            "Anno_fine/test_cate.txt",
            "5\n",
            "51\n",
            "test_cate.txt, row 1 should have 1 numbers of 1 to 50",
        ),
        (
            "camelyon17",
            "metadata.csv",
            ",center,",
            ",centre,",
            "has no column 'center', but ', patient, node",
        ),
        (
            "camelyon17",
            "metadata.csv",
            ",004,0,0,0,0,0,0,0",
            ",004,0,0,0,0,0,5,0",
            "row 1: center is '5', and not one of 0 to 4",
        ),
        (
            "camelyon17",
            "metadata.csv",
            "0,004,0,",
            "0,005,0,",
            "row 1 names 'patches/patient_005_node_0/patch_.*does not hold",
        ),
        (
            "iwildcam",
            "metadata.csv",
            "id_val",
            "validation",
            "row 4: split is 'validation', which is not known",
        ),
        ("iwildcam", "metadata.csv", "train,0,7", "train,0", "row 1 has 9 cells, not 10"),
        (
            "fmow",
            "rgb_metadata.csv",
            "airport,90",
            "aeroport,90",
            "category is 'aeroport', which is not known",
        ),
        (
            "imagenet-vid",
            f"{wild.VID}metadata/labels.json",
            "[26]",
            "[30]",
            "has no labels of 'val/ILSVRC2015_val_00000000/000432.JPEG'",
        ),
        ("imagenet-vid", f"{wild.VID}metadata/pmsets.json", "{", "[", "pmsets.json is no JSON"),
        (
            "ytbb",
            "anchor_labels.json",
            '"labels": [0, 3]',
            '"labels": [0, 9]',
            "is no list of annotations",
        ),
        (
            "ytbb",
            "ytbb_robustness_test_anchors_full.csv",
            "e,4000,23",
            "e,4000,many",
            "is no table of ytid, time_ms and label",
        ),
        (
            "ytbb",
            "ytbb_robustness_test_anchors_full.csv",
            "e,4000,23",
            "e,4000,-1",
            "is no table of ytid, time_ms and label",
        ),
        (
            "ytbb",
            "ytbb_robustness_test_anchors_full.csv",
            "e,4000,23\n",
            "",
            "has no class of 'e_4000/frame-60.jpg'",
        ),
    ],
)
def test_a_wrong_list_is_named(
    name: str, file: str, old: str, new: str, sentence: str, tmp_path: Path
) -> None:
    folder = changed(name, tmp_path / "folder", file, old, new)
    with pytest.raises(DataError, match=sentence) as caught:
        source(name).read(folder)
    assert "\n" not in str(caught.value)


def test_a_folder_of_another_class_and_pictures_in_two_places_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "a", wild.imagenet_a() | wild.named("imagenet-a/n00000000/1.jpg"))
    with pytest.raises(
        DataError,
        match="'imagenet-a/n00000000/1.jpg' is in a folder that is none of the 1,000 classes",
    ):
        source("imagenet-a").read(folder)
    folder = written(
        tmp_path / "b",
        wild.imagenet_a() | {f"old/{name}": data for name, data in wild.imagenet_a().items()},
    )
    with pytest.raises(
        DataError,
        match=(
            "holds pictures of imagenet-a in two places: in 'imagenet-a/' and in 'old/imagenet-a/'"
        ),
    ):
        source("imagenet-a").read(folder)
    with pytest.raises(DataError, match="there is no picture of gaussian-noise of severity 2"):
        source("imagenet-c", severities=[1, 2]).read(
            written(tmp_path / "c", WILD["imagenet-c"].files())
        )


def test_unit_none_takes_the_units_away_and_is_one_copy(tmp_path: Path) -> None:
    root, folder = str(tmp_path / "root"), written(tmp_path / "folder", wild.camelyon17())
    prepare(source("camelyon17", root=root), originals=str(folder), accept_totals=True)
    apart, free = (
        source("camelyon17", root=root).load(),
        source("camelyon17", root=root, unit="none").load(),
    )
    assert apart.units is not None
    assert free.units is None
    assert apart.fingerprint != free.fingerprint
    assert apart.table.digest() == free.table.digest()
    assert len(list((tmp_path / "root").iterdir())) == 1


def test_the_red_border_of_objectnet_is_cut_off(tmp_path: Path) -> None:
    folder = written(tmp_path / "folder", wild.objectnet())
    pixels = source("objectnet", size=20).read(folder).dataset.inputs(np.arange(2))
    assert pixels[..., 0].max() == 0
    assert np.unique(pixels[..., 1].reshape(2, -1), axis=1).tolist() == [[60], [0]]
    tiny = written(
        tmp_path / "tiny",
        {"images/chair/1.png": wild.encoded(np.zeros((4, 4, 3), np.uint8), "x.png")},
    )
    data = source("objectnet").read(tiny).dataset
    with pytest.raises(
        DataError, match="'images/chair/1.png' is no larger than its border of 2 pixels"
    ):
        data.inputs(np.arange(1))


def test_corruptions_need_their_own_archives_alone() -> None:
    def needed(**settings: Any) -> list[str]:
        return [
            original.name
            for original in source(
                "imagenet-c", **{"corruptions": None, "severities": None, **settings}
            ).originals()
        ]

    assert needed() == ["noise.tar", "blur.tar", "weather.tar", "digital.tar"]
    assert needed(corruptions=["fog", "spatter"]) == ["weather.tar", "extra.tar"]
    assert source("imagenet-c", corruptions=None, severities=[5]).totals() == {"all": 15 * 50_000}
    for wrong in (
        {"corruptions": ["frogs"]},
        {"severities": [6]},
        {"severities": []},
        {"severities": 5},
    ):
        with pytest.raises(CrosswindError, match="imagenet-c.(corruptions|severities)"):
            source("imagenet-c", **wrong)


def test_classes_are_those_present_all_thousand_or_a_subset(tmp_path: Path) -> None:
    root, folder = str(tmp_path / "root"), written(tmp_path / "folder", wild.imagenet_a())
    prepare(source("imagenet-a", root=root), originals=str(folder), accept_totals=True)
    dataset = open_source("imagenet-a", {"root": root, "size": 8, "classes": "all"})
    assert dataset.attribute("class").values == S
    assert dataset.table.column("class").tolist() == [
        15,
        987,
    ]
    assert open_source("imagenet-a", {"root": root, "size": 8, "classes": "imagenet-a"}).n_rows == 2
    with pytest.raises(DataError, match="imagenet-a has no picture of a class of imagenet-r"):
        open_source("imagenet-a", {"root": root, "size": 8, "classes": "imagenet-r"})


def test_the_facts_of_imagenets_classes_hold_together() -> None:
    assert len(S) == 1000 == len(set(S))
    assert list(S) == sorted(S)
    for name in ("imagenet-a", "imagenet-r"):
        assert len(subset(name)) == 200 == len(set(subset(name)))
        assert set(subset(name)) <= set(S)
    sizes = {name: len(groups(name)) for name in ("objectnet", "imagenet-vid", "ytbb")}
    assert sizes == {"objectnet": 113, "imagenet-vid": 30, "ytbb": 24}
    meaning: dict[str, tuple[int, ...]] = {}
    for name in sizes:
        outputs = [output for several in groups(name).values() for output in several]
        assert len(outputs) == len(set(outputs)) and max(outputs) < 1000, (
            f"{name} gives an output to two classes"
        )
        for label, several in groups(name).items():
            assert meaning.setdefault(label, several) == several, f"{label} means two things"
    # Known beforehand: ImageNet's clocks are 409 and 530, its barber, folding and rocking chairs
    # 423, 559 and 765.
    assert groups("objectnet")["alarm_clock"] == (409, 530)
    assert groups("objectnet")["chair"] == (
        423,
        559,
        765,
    )
    assert S[409] == "n02708093"
    assert [label for label, several in groups("ytbb").items() if not several] == [
        "cow",
        "giraffe",
        "skateboard",
        "toilet",
        "none",
    ]


def test_outputs_of_a_network_become_those_of_other_classes() -> None:
    thousand_logits = np.zeros((2, 1000), dtype=np.float32)
    thousand_logits[0, [409, 530, 765]] = 1, 3, 2
    thousand_logits[1, [559, 0]] = 5, 9
    logits = onto_classes(thousand_logits, ["chair", "alarm_clock", "cow", S[0]])
    assert logits is not None
    assert logits.tolist() == [
        [2, 3, np.finfo(np.float32).min, 0],
        [5, 0, np.finfo(np.float32).min, 9],
    ]
    assert onto_classes(thousand_logits, ["chair", "sofa"]) is None
    assert outputs_of([S[7]]) == [(7,)]


def test_imagenet_itself_takes_the_classes_of_a_subset(tmp_path: Path) -> None:
    names = (S[15], S[16], S[987])
    mapping = "\n".join(f"{name} words" for name in names).encode()
    files = {"LOC_synset_mapping.txt": mapping} | wild.named(
        *(f"train/{name}/{name}_1.JPEG" for name in names)
    )
    folder = str(written(tmp_path / "imagenet", files))
    assert open_source("imagenet", {"path": folder, "classes": "imagenet-a"}).attribute(
        "class"
    ).values == (S[15], S[987])
    assert open_source("imagenet", {"path": folder, "classes": "all"}).table.column(
        "class"
    ).tolist() == [15, 16, 987]


def test_a_network_with_imagenets_outputs_answers_for_kinds_of_things(tmp_path: Path) -> None:
    """An alarm clock is a digital clock, output 530, to it, and a chair a rocking chair, output
    765: both are right."""
    import crosswind as cw

    root = str(tmp_path / "root")
    prepare(
        source("objectnet", root=root),
        originals=str(written(tmp_path / "folder", wild.objectnet(8))),
        accept_totals=True,
    )
    (tmp_path / "network.py").write_text(
        "import numpy as np\n"
        "def answer(images):\n"
        "    outputs = np.zeros((len(images), 1000), np.float32)\n"
        "    outputs[:, 0] = 9  # a tench, which is not among the kinds\n"
        "    outputs[np.arange(len(images)), np.where(images[:, 4, 4, 1] > 30, 530, 765)] = 3\n"
        "    return outputs\n"
    )
    data = {
        "source": "objectnet",
        "options": {"root": root, "size": 8},
        "label": "class",
        "attributes": [],
        "roles": {"test": 4},
    }
    study = {
        "name": "things",
        "data": {"objectnet": data},
        "shifts": {"none": []},
        "sets": {"test": {"role": "test", "draw": "all"}},
        "models": {
            "network": {"model": "callable", "function": f"{tmp_path / 'network.py'}:answer"}
        },
        "selection": ["last"],
        "seeds": 1,
    }
    study_results = cw.run_study(study, str(tmp_path / "out"), workers=0)
    (row,) = (row for row in study_results.rows if row["set"] == "test")
    assert row["metrics"]["accuracy"] == 1


@pytest.mark.parametrize(
    ("name", "label", "attribute", "shared"),
    [
        ("camelyon17", "tumor", "hospital", ["id_val"]),
        ("iwildcam", "species", "location", ["id_val", "id_test"]),
        ("fmow", "category", "region", []),
    ],
)
def test_the_parts_of_wilds_are_roles_and_no_unit_is_in_two(
    name: str, label: str, attribute: str, shared: list[str], tmp_path: Path
) -> None:
    """Parts out of distribution share no unit with training; one that does is refused beside it,
    unless there are no units."""
    folder = written(tmp_path / "folder", WILD[name].files())
    data = source(name).read(folder).dataset
    official_sets = data.attribute("split").values

    def split(dataset: AttributedDataset, validation: str) -> Any:
        roles = Roles(
            official={"column": "split", "train": "train", "validation": validation, "test": "test"}
        )
        sets = {
            "validation": SetPlan("validation", draw=ALL_ROWS),
            "test": SetPlan("test", draw=ALL_ROWS),
        }
        return make_split(
            {"d": dataset}, "d", SplitPlan(label, (attribute,), roles=roles, sets=sets), 0
        )

    split_sets = split(data, "val")
    rows_of_set = {
        "train": split_sets.train.rows,
        "val": split_sets.validation["validation"].rows,
        "test": split_sets.evaluation["test"].rows,
    }
    for set_name, rows in rows_of_set.items():
        assert (
            sorted(rows)
            == np.flatnonzero(data.table.column("split") == official_sets.index(set_name)).tolist()
        ), set_name
    assert data.units is not None
    for first_set, second_set in (("train", "val"), ("train", "test"), ("val", "test")):
        assert not set(data.units[rows_of_set[first_set]]) & set(
            data.units[rows_of_set[second_set]]
        )
    for set_name in ("id_val", "id_test"):
        if set_name in shared:
            with pytest.raises(
                CrosswindError,
                match="in two parts of the official split; a source whose option unit is none",
            ):
                split(data, set_name)
            free = source(name, unit="none")
            assert len(split(free.finish(data), set_name).validation["validation"])
        elif set_name in official_sets:
            assert len(split(data, set_name).validation["validation"]) == 1
