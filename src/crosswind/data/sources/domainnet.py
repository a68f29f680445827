"""DomainNet: 345 classes in six renditions, in the cleaned version of its authors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crosswind.core.cards import Card, Original
from crosswind.core.errors import DataError, InputError, shown, unknown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import digest, digest_arrays
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.decoding import decoder
from crosswind.data.sources.base import PreparedSource, Reading
from crosswind.data.trees import Tree, folder_tree, listed, zip_tree

__all__ = ["DomainNet"]

RENDITIONS = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")
SPLITS = ("train", "test")


@register("domainnet", kind="source")
@dataclass(frozen=True)
class DomainNet(PreparedSource):
    """DomainNet: 586,575 images of 345 classes as clipart, infograph, painting, quickdraw, real and sketch (cleaned version).

    Attributes: `class` (aircraft_carrier, airplane, ..., zigzag, in the order of the official numbers), `rendition`, `split`
    (train, test, as the official lists have them). Rows are those of the lists, by rendition, split and line; images that the lists
    leave out (duplicates, which the zips still hold) are not read. Originals are the zips as they come, or the same folders
    unpacked (`clipart/airplane/...`), and the lists. `renditions` prepares some of them; classes are chosen in a study (`keep`).
    586,575 pictures of 64 x 64 take 7.2 GB as an array; at 224 use `--store jpeg`.
    Reference: X. Peng, Q. Bai, X. Xia, Z. Huang, K. Saenko, B. Wang, Moment Matching for Multi-Source Domain Adaptation, ICCV 2019.
    """

    size: int = knob(64, domain="[4, 1024]", doc="side of the pictures in pixels; proportions are not kept")
    renditions: list[str] | None = knob(None, doc="which renditions are read; all six by default")

    card = Card(
        attributes={
            "class": 345,
            "rendition": ("clipart", "infograph", "painting", "quickdraw", "real", "sketch"),
            "split": ("train", "test"),
        },
        totals={
            "clipart train": 33_525,
            "clipart test": 14_604,
            "infograph train": 36_023,
            "infograph test": 15_582,
            "painting train": 50_416,
            "painting test": 21_850,
            "quickdraw train": 120_750,
            "quickdraw test": 51_750,
            "real train": 120_906,
            "real test": 52_041,
            "sketch train": 48_212,
            "sketch test": 20_916,
        },
        shape="of many sizes x 3",
        licence="copyrighted images made available by their collectors as fair use, for non-commercial research and education",
        citation="Peng, Bai, Xia, Huang, Saenko, Wang, Moment Matching for Multi-Source Domain Adaptation, ICCV 2019",
        used={"omran2022": "renditions as environments (section 3.3)"},
        layout="ai.bu.edu/M3SDA, cleaned version: RENDITION.zip with RENDITION/CLASS/FILE, RENDITION_PART.txt with `path number` "
        "a line; sizes and sha256 as TensorFlow Datasets has them",
        get="get the zips and lists of the cleaned version from http://ai.bu.edu/M3SDA and put them there, zipped or unpacked",
        files=(
            Original(
                "clipart_train.txt",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/clipart_train.txt",
                1_443_819,
                "affdadf5f95a7583e6b98030a3d35007e2613ee4dd942393c5a705ec2b429312",
                variant="clipart",
            ),
            Original(
                "clipart_test.txt",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/clipart_test.txt",
                628_917,
                "62c8e36aaba1c41ad9e249099739707220a44c08f167b37ef420f34a31628a6b",
                variant="clipart",
            ),
            Original(
                "clipart.zip",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/groundtruth/clipart.zip",
                1_270_909_081,
                "f8f248a3e8bbc9868c523ae24e6601b4c2ad102afc60c0efeb4f3255df22354d",
                variant="clipart",
            ),
            Original(
                "infograph_train.txt",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/infograph_train.txt",
                1_683_098,
                "36b44cbd41a2915e0dc73b4f4be8862a6f3c220f93c8d63fb2439beeae3aefda",
                variant="infograph",
            ),
            Original(
                "infograph_test.txt",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/infograph_test.txt",
                728_028,
                "413cfa54ac92e7e6b242f4f09fbd9c8ace85c4deaf3cb6c81ff6b68264460136",
                variant="infograph",
            ),
            Original(
                "infograph.zip",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/infograph.zip",
                4_338_659_804,
                "891e14f476317e97b6f06d6498c11d0a5b8d0c8b57210765ed9beb072da611fa",
                variant="infograph",
            ),
            Original(
                "painting_train.txt",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/painting_train.txt",
                2_241_901,
                "f1da38d50a702fddf1329f85bc607d7a2abcae7e6aec75e1fd49cc1bd340d47b",
                variant="painting",
            ),
            Original(
                "painting_test.txt",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/painting_test.txt",
                971_888,
                "11472b13b5188e09f06918b12eebb660588c97a20e43e268d9b02e3e37eb8f97",
                variant="painting",
            ),
            Original(
                "painting.zip",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/groundtruth/painting.zip",
                3_679_366_174,
                "fa47e6d405503ea0286cabd767f176bd30e988b63ddd7b9db16cf030c9770015",
                variant="painting",
            ),
            Original(
                "quickdraw_train.txt",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/quickdraw_train.txt",
                5_164_600,
                "3a5edd3bc215772010eebc87f158707703dd7e48091d13b816af81326a9d1c0f",
                variant="quickdraw",
            ),
            Original(
                "quickdraw_test.txt",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/quickdraw_test.txt",
                2_213_400,
                "2a00a60650a453c65c356da748fec54084a197272137c440e7d52d08947357bf",
                variant="quickdraw",
            ),
            Original(
                "quickdraw.zip",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/quickdraw.zip",
                459_920_701,
                "9f37df2a8c3733703dbb35ad9964202a65f675ca30137756457537536b485d84",
                variant="quickdraw",
            ),
            Original(
                "real_train.txt",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/real_train.txt",
                4_440_944,
                "19d483256d24aef19e581b65eda8333fd918aef3eb733fe499ff384120e3a289",
                variant="real",
            ),
            Original(
                "real_test.txt",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/real_test.txt",
                1_911_327,
                "2b3f75bcde309aeb5931292084b2162e936b5f189e3bb1ad716f0f74c460864c",
                variant="real",
            ),
            Original(
                "real.zip",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/real.zip",
                6_062_039_589,
                "d7fe010b430c5b510f85d657d38c4a1924822695fabea4fef57bd00dba251d63",
                variant="real",
            ),
            Original(
                "sketch_train.txt",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/sketch_train.txt",
                1_960_222,
                "72f4bc6afa5702a1ccba800d0053c1427de87439dfaf246dbc9a2e71abfec54f",
                variant="sketch",
            ),
            Original(
                "sketch_test.txt",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/sketch_test.txt",
                850_581,
                "3fb48fca18c507c4321f007c3f62b308ec232ff6928cbfe2af64e76ec366e840",
                variant="sketch",
            ),
            Original(
                "sketch.zip",
                "http://csr.bu.edu/ftp/visda/2019/multi-source/sketch.zip",
                2_633_992_926,
                "23a7dbae7016b343e934399beaa8a68728fb5e570ebe2c71df9b75cf91c499fc",
                variant="sketch",
            ),
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.renditions
        if given is None:
            return
        if not isinstance(given, list) or not given:
            raise InputError("domainnet.renditions", f"must be a list of renditions, not {shown(given)}", RENDITIONS)
        for place, name in enumerate(given):
            if name not in RENDITIONS:
                raise unknown("domainnet.renditions", "rendition", name, RENDITIONS)
            if name in given[:place]:
                raise InputError("domainnet.renditions", f"names {name!r} twice")
        # One order, so that the same choice is the same copy; None, so that all six are.
        chosen = [name for name in RENDITIONS if name in given]
        object.__setattr__(self, "renditions", None if len(chosen) == len(RENDITIONS) else chosen)

    def originals(self) -> tuple[Original, ...]:
        """The zip and the two lists of each rendition that is read."""
        return tuple(item for item in self.card.files if item.variant in self._chosen())

    def totals(self) -> Mapping[str, int]:
        """The rows of both parts of each rendition that is read."""
        return {part: rows for part, rows in self.card.totals.items() if part.split()[0] in self._chosen()}

    def places(self, folder: Path) -> tuple[Path, ...]:
        """The zips, or the unpacked folders, and the lists."""
        unpacked = (folder / name for name in self._chosen())
        return (*(place for place in unpacked if place.is_dir()), *(folder / item.name for item in self.originals()))

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """Originals that are not there; an unpacked folder serves for a zip."""
        gone = super().missing(folder)
        return tuple(item for item in gone if not (item.name.endswith(".zip") and (folder / item.variant).is_dir()))

    def read(self, folder: Path) -> Reading:
        """The rows of the official lists, and their images in zips or folders."""
        lists = folder_tree(folder, only=[f"{name}_{part}.txt" for name in self._chosen() for part in SPLITS])
        names: dict[int, str] = {}
        trees: list[Tree] = []
        files: list[str] = []
        codes: list[tuple[int, int, int]] = []
        parts: dict[str, int] = {}
        for code, rendition in enumerate(self._chosen()):
            # The zip is what is published; a folder may be anything, so it is read only where there is no zip.
            archive = folder / f"{rendition}.zip"
            trees.append(zip_tree(archive) if archive.exists() else _unpacked(folder, rendition))
            seen: set[str] = set()
            for split, part in enumerate(SPLITS):
                rows = _rows(lists, f"{rendition}_{part}.txt", rendition, trees[-1], names, seen)
                parts[f"{rendition} {part}"] = len(rows)
                files += [path for path, _ in rows]
                codes += [(number, code, split) for _, number in rows]
        if len(set(names.values())) < len(names):
            twice = next(name for name in names.values() if list(names.values()).count(name) > 1)
            raise DataError(f"{folder}: the lists give the class {twice!r} two numbers")
        numbers = sorted(names)
        table = np.array(codes).T
        table[0] = np.searchsorted(numbers, table[0])
        return Reading(self._dataset(tuple(names[number] for number in numbers), table, files, trees), parts)

    def _chosen(self) -> tuple[str, ...]:
        return RENDITIONS if self.renditions is None else tuple(self.renditions)

    def _dataset(self, classes: tuple[str, ...], codes: np.ndarray, files: list[str], trees: list[Tree]) -> AttributedDataset:
        attributes = (Attribute("class", classes), Attribute("rendition", self._chosen()), Attribute("split", SPLITS))
        table = AttributeTable(attributes, codes)
        owner = codes[1].copy()
        bytes_of = np.array([trees[code].sizes[file] for code, file in zip(owner.tolist(), files, strict=True)])
        told = {"source": "domainnet", "size": self.size, "table": table.digest(), "bytes": digest_arrays({"bytes": bytes_of})}
        return AttributedDataset(
            name="domainnet",
            table=table,
            images=decoder(
                lambda row: trees[owner[row]].opened(files[row]), self.size, lambda row: f"{trees[owner[row]].name}: {files[row]!r}"
            ),
            image_shape=(self.size, self.size, 3),
            fingerprint=digest(told),
            from_files=True,
        )


def _unpacked(folder: Path, rendition: str) -> Tree:
    """The images of a folder, by the names that they have in the zip."""
    inside = folder_tree(folder / rendition)
    before = f"{rendition}/"
    sizes = {before + name: size for name, size in inside.sizes.items()}
    return Tree(str(folder), sizes, lambda name: inside.opened(name.removeprefix(before)))


def _rows(lists: Tree, name: str, rendition: str, images: Tree, names: dict[int, str], seen: set[str]) -> list[tuple[str, int]]:
    """The paths and class numbers of one list, checked against the images; `names` gathers the name of each number."""
    if name not in lists.sizes:
        raise DataError(f"{lists.name} has no official list {name}")
    rows = listed(lists, name)
    absent = [path for path, _ in rows if path not in images.sizes]
    if absent:
        more = f" and {len(absent) - 1:,} more" if len(absent) > 1 else ""
        raise DataError(f"{lists.name}: {name} lists {absent[0]!r}{more}, which {images.name} does not hold")
    for path, number in rows:
        parts = path.split("/")
        if len(parts) != 3 or parts[0] != rendition:
            raise DataError(f"{lists.name}: {name} lists {path!r}, which should be {rendition}/CLASS/FILE")
        if names.setdefault(number, parts[1]) != parts[1]:
            raise DataError(
                f"{lists.name}: {name} gives {path!r} the number {number}, which is that of {names[number]!r} elsewhere"
            )
        if path in seen:
            raise DataError(f"{lists.name}: {name} lists {path!r}, which is in the other list too")
        seen.add(path)
        if not images.sizes[path]:
            raise DataError(f"{images.name}: {path!r} is empty")
    return rows
