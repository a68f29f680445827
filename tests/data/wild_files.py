"""Small data sets in the layouts of those in the wild: name -> bytes of a few pictures and all
lists, as published."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from tests.data.picture_files import encoded, zipped

from crosswind.core.cards import card_of
from crosswind.data.imagenet_classes import groups, synsets

Files = dict[str, bytes]


def colour(name: str) -> tuple[int, int, int]:
    """The colour of the picture of this name: of no other one here."""
    checksum = zlib.crc32(name.encode())
    return checksum & 255, checksum >> 8 & 255, checksum >> 16 & 255


def picture(name: str) -> bytes:
    return encoded(colour(name), name.lower())


def named(*names: str) -> Files:
    return {name: picture(name) for name in names}


def text(*lines: str) -> bytes:
    return "\n".join(lines).encode() + b"\n"


def celeba() -> Files:
    """Six pictures of three people, two of each part; attribute a of picture i is 1 where a + i is
    a multiple of three."""
    attributes = [name for name in card_of("celeba").attributes if name != "split"]
    names = [f"{i + 1:06}.jpg" for i in range(6)]
    marks = ["  ".join("1" if (a + i) % 3 == 0 else "-1" for a in range(40)) for i in range(6)]
    return named(*(f"img_align_celeba/{name}" for name in names)) | {
        "list_attr_celeba.txt": text(
            "6",
            " ".join(attributes) + " ",
            *(f"{name} {row}" for name, row in zip(names, marks, strict=True)),
        ),
        "list_eval_partition.txt": text(*(f"{name} {i // 2}" for i, name in enumerate(names))),
        "identity_CelebA.txt": text(*(f"{name} {2880 + i // 2}" for i, name in enumerate(names))),
    }


def deepfashion(each: int = 2) -> Files:
    """`each` pictures of an item in each part, cycling through the 26 attributes; the last of all
    has no texture marked."""
    card = card_of("deepfashion").attributes
    kinds = [
        [word for word in values if word != "other"]
        for name, values in card.items()
        if name not in ("category", "split")
    ]
    names = [word for kind in kinds for word in kind]
    categories = [f"Category{i + 1}" for i in range(48)] + ["Dress", "Button-Down"]
    files: Files = {
        "Anno_fine/list_attr_cloth.txt": text(
            "26", "attribute_name  attribute_type", *(f"{word}    1" for word in names)
        ),
        "Anno_fine/list_category_cloth.txt": text(
            "50", "category_name  category_type", *(f"{word}    3" for word in categories)
        ),
    }
    row = 0
    for split_name in ("train", "val", "test"):
        picture_paths = [f"img/Sheer_{split_name}_Blouse/img_{i + 1:08}.jpg" for i in range(each)]
        marks = []
        for i in range(each):
            chosen = {kind[(row + i) % len(kind)] for kind in kinds}
            if split_name == "test" and i == each - 1:
                chosen -= set(kinds[0])
            marks.append(" ".join("1" if word in chosen else "0" for word in names))
        files |= {
            f"Anno_fine/{split_name}.txt": text(*picture_paths),
            f"Anno_fine/{split_name}_attr.txt": text(*marks),
            f"Anno_fine/{split_name}_cate.txt": text(
                *(str(1 + (row + i) % 50) for i in range(each))
            ),
        } | named(*picture_paths)
        row += each
    return files


def camelyon17(patients: int = 1) -> Files:
    """Two patches of each patient of five hospitals; hospital 3 has a validation patch of its first
    patient, who trains too."""
    rows, files = [",patient,node,x_coord,y_coord,tumor,slide,center,split"], {}
    for center in range(5):
        for i in range(2 * patients):
            patient, node, x, y = f"{20 * center + 4 + i // 2:03}", i % 2, 32 * center, 64 * i
            name = f"patches/patient_{patient}_node_{node}/patch_patient_{patient}_node_{node}_x_{x}_y_{y}.png"
            rows.append(
                f"{len(files)},{patient},{node},{x},{y},{i % 2},{10 * center + i},{center},{int(center == 3 and i == 1)}"
            )
            files[name] = picture(name)
    return files | {"metadata.csv": text(*rows)}


IWILDCAM = (  # split, camera, species
    ("train", 0, 0),
    ("val", 2, 1),
    ("test", 3, 2),
    ("id_val", 0, 0),
    ("id_test", 1, 1),
    ("train", 1, 1),
    ("train", 0, 1),
    ("train", 1, 0),
)


def iwildcam() -> Files:
    """Four pictures to train on, of two cameras, and one of each other split; two species have one
    name."""
    header = "split,location_remapped,location,sequence_remapped,seq_id,y,category_id,datetime,filename,image_id"
    rows = [
        f"{split},{location},{location + 7},{i},s{i},{label},{label},2013-06-05"
        f" 05:44:19.000,{i}ab.jpg,{i}ab"
        for i, (split, location, label) in enumerate(IWILDCAM)
    ]
    categories = text(
        ",category_id,y,name",
        "0,0,0,empty",
        "1,380,1,mazama temama",
        "2,571,2,mazama temama",
        "3,243,99999,didelphis sp",
    )
    pictures = named(*(f"train/{i}ab.jpg" for i in range(len(IWILDCAM))))
    return pictures | {"metadata.csv": text(header, *rows), "categories.csv": categories}


FMOW = (  # part, year, country, official split
    ("train", 2010, "ITA", "train"),
    ("train", 2013, "ITA", ""),
    ("seq", 2011, "USA", ""),
    ("val", 2012, "USA", "id_val"),
    ("val", 2013, "USA", "val"),
    ("test", 2002, "CHN", "id_test"),
    ("test", 2016, "XXX", "test"),
    ("val", 2016, "KEN", ""),
)


def fmow() -> Files:
    """A row of every kind of part and year, three of them of no official split."""
    rows = [
        "split,img_filename,img_path,spatial_reference,epsg,category,visible,country_code,timestamp"
    ]
    for i, (split_name, year, country, _) in enumerate(FMOW):
        name = f"airport_{i // 2}_{i % 2}_rgb.jpg"
        kind, time = "zoo" if i % 2 else "airport", f"{year}-04-08T10:31:46Z"
        rows.append(
            f'{split_name},{name},{split_name}/airport/{name},"GEOGCS[""WGS 84"",'
            f' x]",32633,{kind},90,{country},{time}'
        )
    countries = (
        "name,alpha-2,alpha-3,region",
        "Italy,IT,ITA,Europe",
        "United States,US,USA,Americas",
        "China,CN,CHN,Asia",
        "Kenya,KE,KEN,Africa",
    )
    return named(*(f"images/rgb_img_{i}.png" for i in range(len(FMOW)))) | {
        "rgb_metadata.csv": text(*rows),
        "country_code_mapping.csv": text(*countries),
    }


def imagenet_c(*folders: str) -> Files:
    """Two validation pictures of two classes under each of the corruptions at severities 1 and
    5."""
    names = [(synsets()[3], 2), (synsets()[0], 1)]
    return named(
        *(
            f"{folder}/{severity}/{name}/ILSVRC2012_val_{number:08}.JPEG"
            for folder in folders
            for severity in (1, 5)
            for name, number in names
        )
    )


def imagenet_v2(folder: str = "imagenetv2-matched-frequency-format-val") -> Files:
    """Classes 0, 10 and 2, whose folders sort otherwise as text."""
    return named(
        *(f"{folder}/{class_number}/{class_number:03}ab.jpeg" for class_number in (0, 10, 2))
    )


def imagenet_sketch() -> Files:
    return named(
        *(
            f"sketch/{synsets()[class_number]}/sketch_{i}.JPEG"
            for class_number in (5, 1)
            for i in range(2)
        )
    )


def imagenet_r() -> Files:
    return {"imagenet-r/README.txt": b"Renditions\n"} | named(
        *(
            f"imagenet-r/{synsets()[class_number]}/{word}_{class_number}.jpg"
            for class_number in (2, 1)
            for word in ("art", "toy")
        )
    )


def imagenet_a() -> Files:
    return {"imagenet-a/README.txt": b"Natural\n"} | named(
        *(
            f"imagenet-a/{synsets()[class_number]}/0.0001{class_number}_digital clock _ fox"
            f" squirrel_0.8656{class_number}.jpg"
            for class_number in (987, 15)
        )
    )


def objectnet(each: int = 1) -> Files:
    """Pictures of two kinds that ImageNet has and one that it has not, in a red border of two
    pixels."""
    files: Files = {"objectnet-1.0/mappings/folder_to_objectnet_label.json": b"{}"}
    for row, kind in enumerate(("chair", "alarm_clock", "air_freshener")):
        for i in range(each):
            colours = np.full((20, 24, 3), (255, 0, 0), dtype=np.uint8)
            colours[2:-2, 2:-2] = (0, 60 * row, 200 - i)
            files[f"objectnet-1.0/images/{kind}/{i}a{row}.png"] = encoded(colours, "x.png")
    return files


VID = "imagenet_vid_ytbb_robust/imagenet-vid-robust/"


def imagenet_vid() -> Files:
    """Two sets: three frames of a turtle, and two of a cat on a motorcycle."""
    frames = [
        f"val/ILSVRC2015_val_0000000{video}/{frame:06}.JPEG"
        for video, frame in ((0, 432), (0, 433), (0, 434), (1, 77), (1, 78))
    ]
    sets = {frames[1]: [frames[0], frames[2]], frames[4]: [frames[3]]}
    labels = dict.fromkeys(frames[:3], [26]) | dict.fromkeys(frames[3:], [9, 18])
    metadata = {
        f"{VID}metadata/pmsets.json": json.dumps(sets).encode(),
        f"{VID}metadata/labels.json": json.dumps(labels).encode(),
    }
    return named(*(VID + name for name in frames)) | metadata


def ytbb() -> Files:
    """A good anchor with a similar and a deformed frame beside it, one that is bad, and one whose
    pair says so."""
    words = ["good", "bad", "unsure", "person", "similar", "deformation", "bad-anchor"]
    anchors = [
        "a_b-1_1000/frame-15.jpg",
        "c_2000/frame-30.jpg",
        "d_3000/frame-45.jpg",
        "e_4000/frame-60.jpg",
    ]
    pairs = [
        (anchors[0], "a_b-1_1000/frame-16.jpg", [4]),
        (anchors[0], "a_b-1_1000/frame-14.jpg", [4, 5]),
        (anchors[2], "d_3000/frame-44.jpg", [4, 6]),
    ]
    marks = ([0, 3], [0, 1], [0], [0])
    top = "imagenet_vid_ytbb_robust/ytbb-robust/ytbb_videos/"
    return named(*(top + name for name in (*anchors, *(pair[1] for pair in pairs)))) | {
        "anchor_labels.json": (
            json.dumps(
                {
                    "annotations": [
                        {"key": key, "notes": "", "labels": label}
                        for key, label in zip(anchors, marks, strict=True)
                    ],
                    "labels": words,
                }
            ).encode()
        ),
        "pmk_labels.json": (
            json.dumps(
                {
                    "annotations": [
                        {"key": f"{anchor},{frame}", "notes": "", "labels": label}
                        for anchor, frame, label in pairs
                    ],
                    "labels": words,
                }
            ).encode()
        ),
        "ytbb_robustness_test_anchors_full.csv": text(
            "ytid,time_ms,label", "a_b-1,1000,22", "c,2000,0", "d,3000,0", "e,4000,23"
        ),
    }


def tarred(path: Path, files: Mapping[str, bytes]) -> Path:
    """The files in a tar archive, packed where its name ends in .gz; the same bytes each time."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    archive_bytes = raw.getvalue().rstrip(b"\0")
    # As long as it must be: half of it is then cut short.
    archive_bytes += bytes(-len(archive_bytes) % 512 + 1024)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        gzip.compress(archive_bytes, mtime=0) if path.suffix == ".gz" else archive_bytes
    )
    return path


def packed(path: Path, files: Mapping[str, bytes]) -> Path:
    """The archive of the files, of the kind that its name says."""
    return (zipped if path.suffix == ".zip" else tarred)(path, files)


def all_c() -> dict[str, Files]:
    """The archive of each group -> its files, for three corruptions."""
    return {
        "noise.tar": imagenet_c("gaussian_noise", "shot_noise"),
        "digital.tar": imagenet_c("elastic_transform"),
    }


assert "chair" in groups("objectnet") and "air_freshener" not in groups("objectnet")
