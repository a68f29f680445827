"""Collections of image files in folders or archives: PACS, DomainNet, and folders of the user's
own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crosswind.core.cards import Original, card_of
from crosswind.core.errors import DataError, InputError, shown
from crosswind.core.knobs import knob
from crosswind.core.printing import foreign_name
from crosswind.core.registry import register
from crosswind.data.attributes import MOST_VALUES, Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.decoding import IMAGE_ENDINGS, named_files
from crosswind.data.imagenet_classes import in_classes
from crosswind.data.sources.base import PreparedSource, Reading, names_chosen, positions
from crosswind.data.sources.packed_trees import File, of_tree, sizes_digest
from crosswind.data.spellings import as_values
from crosswind.data.trees import Tree, folder_tree, in_order, joined, listed, zip_tree

_PACS_PLACE = re.compile(
    r"((?:.*/)?)((photo|art_painting|cartoon|sketch)/([^/]+)/[^/]+\.(?i:jpe?g|png))"
)
_PACS_ARCHIVES = ("PACS.zip", "pacs.zip", "kfold.zip")


def _tree_of_pacs(folder: Path) -> Tree:
    """The files below `folder`. Archives count where no image lies unpacked beside them."""
    tree = folder_tree(folder)
    if any(map(_PACS_PLACE.fullmatch, tree.sizes)):
        return tree
    archives = [name for name in tree.sizes if name.rpartition("/")[2] in _PACS_ARCHIVES]
    return joined([tree, *(zip_tree(folder / name) for name in archives)], str(folder))


def _one_place(matches: Iterable[re.Match[str]], folder: Path) -> str:
    """The folders above the renditions, the same for all images. Raises `DataError` without images,
    and where they lie in two places."""
    before = sorted({match[1] for match in matches})
    if not before:
        raise DataError(f"{folder} holds no images of PACS (PACS.zip)")
    if len(before) > 1:
        places_words = f"in {before[0] or '.'!r} and in {before[1] or '.'!r}"
        raise DataError(f"{folder} holds images of PACS in two places: {places_words}")
    return before[0]


@register("pacs", kind="source")
@dataclass(frozen=True)
class Pacs(PreparedSource):
    """PACS: 9,991 images of seven classes as photos, art paintings, cartoons and sketches.

    Attributes: `class` (dog, elephant, giraffe, guitar, horse, house, person), `rendition` (photo,
    art_painting, cartoon, sketch) and, from the official lists, `split` (train, crossval; the lists
    called `test` hold both). Rows are in the order of rendition, class and file. Classes are not
    balanced, and not alike in the renditions: 80 of 3,929 sketches are houses. One sketch of a dog,
    n02103406_4068-1.png, shows the word ERROR and is one of the 9,991. Leave-one-rendition-out:
    `studies/pacs/leave-one-out.yaml`.
    Reference: D. Li, Y. Yang, Y.-Z. Song, T. Hospedales, Deeper, Broader and Artier Domain
    Generalization, ICCV 2017.
    """

    size: int = knob(
        64, domain="[4, 512]", doc="side of the pictures in pixels; the original's is 227"
    )
    lists: bool = knob(
        True,
        doc=(
            "whether the official lists are read for the attribute split; false where they are not"
            " at hand"
        ),
    )

    card = card_of("pacs")

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """The archive, where there is not even a folder to look into."""
        if folder.is_dir():
            return ()
        return (Original("PACS.zip"),)

    def read(self, folder: Path) -> Reading:
        """The images RENDITION/CLASS/FILE, at any depth of `folder` or in a zip archive there, and
        the lists beside them."""
        tree = _tree_of_pacs(folder)
        matches = [match for match in map(_PACS_PLACE.fullmatch, tree.sizes) if match]
        before = _one_place(matches, folder)
        attributes = self.attributes()[: 3 if self.lists else 2]
        classes, renditions = (attribute.values for attribute in attributes[:2])
        for match in matches:
            if match[4] not in classes or not tree.sizes[match[0]]:
                problem = (
                    f"{tree.name}: {match[0]!r} is empty, or lies in a folder that is no class"
                    f" ({', '.join(classes)})"
                )
                raise DataError(problem)
        matches.sort(key=lambda match: (renditions.index(match[3]), match[2]))
        files = {match[2]: tree.sizes[match[0]] for match in matches}
        class_codes = positions([match[4] for match in matches], classes)
        rendition_codes = positions([match[3] for match in matches], renditions)
        codes = [class_codes, rendition_codes]
        if self.lists:
            renditions_there = dict.fromkeys(match[3] for match in matches)
            split = self._split(tree, folder, files, renditions_there, attributes)
            codes.append(np.array([split[file] for file in files]))
        table = AttributeTable(attributes, np.stack(codes))
        rows_of = np.bincount(rendition_codes, minlength=len(renditions)).tolist()
        identity = {"source": "pacs", "bytes": sizes_digest(files.values())}
        packed_files = [(tree, before + file) for file in files]
        dataset = of_tree("pacs", table, packed_files, self.size, identity)
        return Reading(dataset, dict(zip(renditions, rows_of, strict=True)))

    def _split(
        self,
        tree: Tree,
        folder: Path,
        files: Mapping[str, int],
        renditions: Iterable[str],
        attributes: Sequence[Attribute],
    ) -> dict[str, int]:
        """The code of its official split by file. Raises `DataError` for a file that is in no
        list."""
        class_numbers = dict(enumerate(attributes[0].values, 1))
        split: dict[str, int] = {}
        for rendition in renditions:
            lists = []
            for part_name in attributes[2].values:
                lists.append(self._list(tree, folder, f"{rendition}_{part_name}_kfold.txt"))
            rows = _listed(tree, lists, rendition, files, tree.name, dict(class_numbers))
            split |= {file: part_name for file, _, part_name in rows}
        left = [file for file in files if file not in split]
        if left:
            problem = f"the official lists leave out {left[0]!r} and {len(left) - 1:,} more"
            raise DataError(f"{tree.name}: {problem}")
        return split

    def _list(self, tree: Tree, folder: Path, list_name: str) -> str:
        """The name in the tree of an official list."""
        list_files = [name for name in tree.sizes if name.rpartition("/")[2] == list_name]
        if len(list_files) != 1:
            how_often = "nowhere"
            if list_files:
                how_often = f"twice: {list_files[0]!r} and {list_files[1]!r}"
            raise DataError(
                f"{folder} has the official list {list_name} {how_often}; put it there once, or set"
                " lists=false"
            )
        return list_files[0]


@register("domainnet", kind="source")
@dataclass(frozen=True)
class DomainNet(PreparedSource):
    """DomainNet: 586,575 images of 345 classes as clipart, infograph, painting, quickdraw, real and
    sketch (cleaned version).

    Attributes: `class` (aircraft_carrier, airplane, ..., zigzag, in the order of the official
    numbers), `rendition`, `split` (train, test, as the official lists have them). Rows are those of
    the lists, by rendition, split and line; images that the lists leave out (duplicates, which the
    zips still hold) are not read. Originals are the zips as they come, or the same folders unpacked
    (`clipart/airplane/...`), and the lists. `renditions` prepares some of them; classes are chosen
    in a study (`keep`). 586,575 pictures of 64 x 64 take 7.2 GB as an array; at 224 use `--store
    jpeg`.
    Reference: X. Peng, Q. Bai, X. Xia, Z. Huang, K. Saenko, B. Wang, Moment Matching for
    Multi-Source Domain Adaptation, ICCV 2019.
    """

    size: int = knob(
        64, domain="[4, 1024]", doc="side of the pictures in pixels; proportions are not kept"
    )
    renditions: list[str] | None = knob(None, doc="which renditions are read; all six by default")

    card = card_of("domainnet")

    def __post_init__(self) -> None:
        super().__post_init__()
        known_renditions = self.card.attributes["rendition"]
        if self.renditions is not None:
            renditions = names_chosen(
                self.renditions, "domainnet.renditions", "rendition", known_renditions
            )
            # One order, so that the same choice is the same copy; None, so that all six are.
            chosen = [name for name in known_renditions if name in renditions]
            object.__setattr__(
                self, "renditions", None if len(chosen) == len(known_renditions) else chosen
            )

    def variants(self) -> tuple[str, ...]:
        """The renditions that are read: each has a zip and two lists."""
        if self.renditions is None:
            return self.card.attributes["rendition"]
        return tuple(self.renditions)

    def places(self, folder: Path) -> tuple[Path, ...]:
        """The zips, or the unpacked folders, and the lists."""
        unpacked = (folder / name for name in self.variants())
        return (
            *(unpacked_place for unpacked_place in unpacked if unpacked_place.is_dir()),
            *(folder / original.name for original in self.originals()),
        )

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """Originals that are not there; an unpacked folder serves for a zip."""
        gone = super().missing(folder)
        return tuple(
            original
            for original in gone
            if not (original.name.endswith(".zip") and (folder / original.variant).is_dir())
        )

    def read(self, folder: Path) -> Reading:
        """The rows of the official lists, and their images in zips or folders."""
        splits = self.card.attributes["split"]
        only = [f"{name}_{part_name}.txt" for name in self.variants() for part_name in splits]
        lists = folder_tree(folder, only=only)
        names: dict[int, str] = {}
        files: list[File] = []
        codes: list[tuple[int, int, int]] = []
        for code, rendition in enumerate(self.variants()):
            # The zip is what is published; a folder may be anything, so it is read only where there
            # is no zip.
            archive = folder / f"{rendition}.zip"
            if archive.exists():
                images = zip_tree(archive)
            else:
                images = _unpacked(folder, rendition)
            list_names = [f"{rendition}_{part_name}.txt" for part_name in splits]
            rows = _listed(lists, list_names, rendition, images.sizes, images.name, names)
            files += [(images, path) for path, _, _ in rows]
            codes += [(number, code, split) for _, number, split in rows]
        numbers = sorted(names)
        columns = np.array(codes).T
        columns[0] = np.searchsorted(numbers, columns[0])
        classes = Attribute("class", tuple(names[number] for number in numbers))
        attributes = (classes, Attribute("rendition", self.variants()), Attribute("split", splits))
        table = AttributeTable(attributes, columns)
        counts = np.bincount(
            columns[1] * 2 + columns[2], minlength=2 * len(self.variants())
        ).tolist()
        part_names = [
            f"{rendition} {part_name}" for rendition in self.variants() for part_name in splits
        ]
        identity = {
            "source": "domainnet",
            "bytes": sizes_digest(tree.sizes[file] for tree, file in files),
        }
        dataset = of_tree("domainnet", table, files, self.size, identity)
        return Reading(dataset, dict(zip(part_names, counts, strict=True)))


_PARTS = {"train", "training", "val", "valid", "validation", "dev", "test", "testing"}
"""Names of folders that are the parts of an official split."""


@register("image-folder", kind="source")
@dataclass(frozen=True)
class ImageFolder(PreparedSource):
    """A folder of image files, in folders named after what they show: CLASS/FILE, or as many levels
    as there are.

    `levels` names the attribute of each level of folders, from the top: `[rendition, class]` reads
    photo/dog/1.jpg; a level called `-` is no attribute. Each image lies exactly that deep. Files
    count as images by their ending, in capitals or not (jpg, jpeg, png, bmp, gif, webp, tif, tiff,
    ppm, pgm). Any other file is refused by its name, unless `others` is `skip`. Hidden files and
    folders (those that begin with a dot, and Thumbs.db, desktop.ini, __MACOSX) are never seen.
    Links that lead out of the folder and links to folders are refused, and so is a value of which
    there is no image. Rows are in the order of their paths; values are in numeric order where all
    are whole numbers, else sorted as text. Images are turned as their EXIF data say, made RGB
    (transparency is dropped), and resized to `size` x `size` without keeping their proportions. The
    fingerprint counts the bytes of each image and does not read them. For large folders, prepare a
    copy and name its `root`: `crosswind prepare image-folder --set path=FOLDER --root DIR`.
    """

    path: str = knob(doc="the folder")
    levels: list[str] = knob(
        ["class"], doc="the attribute of each level of folders from the top, `-` for none"
    )
    size: int = knob(64, domain="[4, 2048]", doc="side of the pictures in pixels")
    others: str = knob(
        "refuse",
        domain="{refuse, skip}",
        doc="what is done with files that are no images by their names",
    )

    own = ("path",)
    card = card_of("image-folder")

    def read(self, folder: Path) -> Reading:
        """The images below `path`. Raises `InputError` for settings, `DataError` for what the
        folder holds."""
        top = Path(self.path).expanduser()
        if not top.is_dir():
            problem = "is not a folder" if top.exists() else "is a folder that does not exist"
            raise InputError("image-folder.path", f"{self.path!r} {problem}")
        if isinstance(self.levels, list):
            named = [name for name in self.levels if name != "-"]
        else:
            named = self.levels
        names_chosen(named, "image-folder.levels", "level")
        tree = folder_tree(top, self.path)
        files = self._images(tree)
        attributes = []
        codes = []
        notes: tuple[tuple[str, str], ...] = ()
        for level, name in enumerate(self.levels):
            if name == "-":
                continue
            words = [file.split("/")[level] for file in files]
            values = in_order(words)
            empty = {
                inside
                for inside in tree.folders
                if inside.count("/") == level and inside.split("/")[level] not in values
            }
            if empty:
                raise DataError(
                    f"{self.path}: the folder {min(empty)!r} holds no image, so there is nothing of"
                    f" its {name!r}"
                )
            if len(values) > MOST_VALUES:
                raise DataError(
                    f"{self.path}: {name!r} has {len(values):,} values, more than {MOST_VALUES:,};"
                    " call its level '-'"
                )
            attribute, codes_of, level_notes = as_values(name, values)
            attributes.append(Attribute(name, attribute))
            codes.append(codes_of[positions(words, values)])
            notes += level_notes
        table = AttributeTable(tuple(attributes), np.stack(codes))
        names = np.frombuffer("\x1f".join(files).encode(), np.uint8)
        sizes = map(tree.sizes.__getitem__, files)
        identity = {"source": "image-folder", "files": sizes_digest(sizes, names=names)}
        name = top.resolve().name or "image-folder"
        distinct = frozenset[str]()
        options = {"distinct": distinct, "notes": notes, **named_files(top, files)}
        dataset = of_tree(
            name, table, [(tree, file) for file in files], self.size, identity, **options
        )
        return Reading(dataset, {"all": len(files)})

    def _other_levels(self, name: str) -> str:
        """The levels that would read an image that lies at another depth, as the end of a
        sentence; empty for one that lies in no folder."""
        folders = name.split("/")[:-1]
        if not folders:
            return "; put it into the folder of its class"
        spare = len(folders) - len(self.levels)
        named = [*("-" for _ in range(spare)), *self.levels][-len(folders) :]
        if spare > 0 and folders[0].lower() in _PARTS:
            named[0] = "split"
        return (
            f"; levels has a name for each folder from the top, - for one that is no attribute, here"
            f" [{', '.join(named)}]"
        )

    def _images(self, tree: Tree) -> list[str]:
        """The names of the images, in order; `DataError` for the first file that should not be
        where it is."""
        layout = "/".join([*(name.upper() for name in self.levels), "FILE"])
        files = [name for name in tree.sizes if name.lower().endswith(IMAGE_ENDINGS)]
        if self.others == "refuse" and (
            other_files := [name for name in tree.sizes if not name.lower().endswith(IMAGE_ENDINGS)]
        ):
            n_more = len(other_files) - 1
            are = (
                f"and {n_more:,} more are no images by name"
                if n_more
                else "is no image by its name"
            )
            raise DataError(
                f"{tree.name}: {other_files[0]!r} {are}; take {'them' if n_more else 'it'} away, or"
                " set others=skip"
            )
        for name in files:
            if (problem := foreign_name(name)) is not None:
                raise DataError(f"{tree.name}: {problem}")
            fault = ""
            if name.count("/") != len(self.levels):
                fault = f"is not {layout}{self._other_levels(name)}"
            elif not tree.sizes[name]:
                fault = "is empty; fetch it again, or take it away"
            elif not name.isprintable():
                fault = "has a control character in its name; rename it"
            if fault:
                raise DataError(f"{tree.name}: {name!r} {fault}")
        if not files:
            raise DataError(f"{tree.name} holds no image; each should be {layout}")
        return files


@register("imagenet", kind="source")
@dataclass(frozen=True)
class ImageNetFolder(PreparedSource):
    """ImageNet (ILSVRC 2012) in a folder of your own: 1,281,167 images of 1,000 classes to train on
    and 50,000 to validate on.

    `path` holds the class list `LOC_synset_mapping.txt` and the folders `train` and `val`, side by
    side or in `ILSVRC/Data/CLS-LOC` as Kaggle's archive unpacks: train/SYNSET/FILE, and
    val/SYNSET/FILE or val/FILE with `LOC_val_solution.csv`. A folder of some of the classes, or of
    one of the two parts, is read too. Attributes: `class` (synsets such as n02085620, in the order
    of the list, those that have an image) and `split` (train, val). Rows are in the order of split,
    class and file. Pictures are resized to `size` x `size` without keeping their proportions. The
    fingerprint counts the bytes of each image and reads none. Reference: O. Russakovsky et al.,
    ImageNet Large Scale Visual Recognition Challenge, IJCV 2015.
    """

    path: str = knob(doc="the folder")
    size: int = knob(224, domain="[4, 1024]", doc="side of the pictures in pixels")
    classes: str = knob(
        "present",
        domain="{present, all, imagenet-a, imagenet-r}",
        doc=(
            "classes that have a picture; all 1,000, in the order of a network's outputs; or the"
            " 200 of a subset"
        ),
    )

    own = ("path",)
    after = ("classes",)
    card = card_of("imagenet")

    def read(self, folder: Path) -> Reading:
        """The images below `path`. Raises `InputError` for what is no folder, `DataError` for what
        it holds."""
        top = Path(self.path).expanduser()
        if not top.is_dir():
            problem = "is not a folder" if top.exists() else "is a folder that does not exist"
            raise InputError("imagenet.path", f"{self.path!r} {problem}")
        lists = folder_tree(top, self.path, only=[_SYNSETS, _SOLUTION])
        synsets = _synsets(lists)
        inside = top / "ILSVRC" / "Data" / "CLS-LOC"
        base = inside if inside.is_dir() else top
        files: list[File] = []
        codes: list[tuple[int, int]] = []
        for part_number, name in enumerate(self.card.attributes["split"]):
            if not (base / name).is_dir():
                continue
            tree = folder_tree(base / name)
            synset_of = _solution(lists, synsets) if _is_flat(tree, name) else {}
            file_rows = _coded_files(tree, name, synsets, synset_of)
            files += [(tree, file) for _, file in file_rows]
            codes += [(code, part_number) for code, _ in file_rows]
        if not files:
            raise DataError(
                f"{self.path} holds no image in train or val, here or in ILSVRC/Data/CLS-LOC"
            )
        columns = np.array(codes).T
        synsets_there, columns[0] = np.unique(columns[0], return_inverse=True)
        names = list(synsets)
        part_names = self.card.attributes["split"]
        attributes = (
            Attribute("class", tuple(names[code] for code in synsets_there)),
            Attribute("split", part_names),
        )
        table = AttributeTable(attributes, columns)
        rows = np.bincount(columns[1], minlength=2).tolist()
        identity = {
            "source": "imagenet",
            "bytes": sizes_digest(tree.sizes[file] for tree, file in files),
        }
        dataset = of_tree("imagenet", table, files, self.size, identity)
        return Reading(dataset, dict(zip(part_names, rows, strict=True)))

    def totals(self) -> Mapping[str, int]:
        """None: a folder of some of the classes is read too."""
        return {}

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The pictures with the classes asked for."""
        return in_classes(dataset, self.classes)


_SYNSETS, _SOLUTION = "LOC_synset_mapping.txt", "LOC_val_solution.csv"


def _is_flat(tree: Tree, part_name: str) -> bool:
    """Whether images for validation lie in no folders of synsets."""
    return part_name == "val" and any("/" not in file for file in tree.sizes)


def _coded_files(
    tree: Tree, part_name: str, synsets: Mapping[str, int], synset_of: Mapping[str, str]
) -> list[tuple[int, str]]:
    """The place of its synset and the file of every image, in order. Raises `DataError` for what is
    no image of a synset.

    `synset_of`: that of files in no folder, by their names without ending.
    """
    file_rows = []
    for file, n_bytes in tree.sizes.items():
        synset, _, image = file.rpartition("/")
        synset = synset or synset_of.get(file.rpartition(".")[0], "")
        is_image = image.lower().endswith(IMAGE_ENDINGS)
        if synset not in synsets or not is_image or not n_bytes:
            identity = f"SYNSET/FILE with a synset of {_SYNSETS}"
            if part_name == "val":
                identity += f", or listed in {_SOLUTION}"
            raise DataError(f"{tree.name}: {file!r} is empty, no image, or not {identity}")
        file_rows.append((synsets[synset], file))
    return sorted(file_rows)


def _lines(lists: Tree, name: str) -> list[str]:
    if name not in lists.sizes:
        raise DataError(f"{lists.name} has no file {name}")
    try:
        return lists.read(name).decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"{lists.name}: {name} is no text in UTF-8") from None


def _synsets(lists: Tree) -> dict[str, int]:
    """The synsets of the class list, each with its place."""
    places_of: dict[str, int] = {}
    for number, line in enumerate(_lines(lists, _SYNSETS), 1):
        synset = line.partition(" ")[0].strip()
        if not synset and not line.strip():
            continue
        if not re.fullmatch(r"n\d{8}", synset) or synset in places_of:
            problem = "should begin with a synset such as n02085620"
            if synset in places_of:
                problem = "lists it for a second time"
            raise DataError(
                f"{lists.name}: {_SYNSETS}, line {number}, {shown(line[:60])}, {problem}"
            )
        places_of[synset] = len(places_of)
    if not places_of:
        raise DataError(f"{lists.name}: {_SYNSETS} is empty")
    return places_of


def _solution(lists: Tree, synsets: Mapping[str, int]) -> dict[str, str]:
    """The synset of each validation image by its name without ending, which `LOC_val_solution.csv`
    has beside boxes."""
    synset_of: dict[str, str] = {}
    for number, line in enumerate(_lines(lists, _SOLUTION)[1:], 2):
        name, _, prediction = line.partition(",")
        synset = prediction.partition(" ")[0].strip()
        if line.strip() and (not name or synset not in synsets or name in synset_of):
            problem = "which is not NAME,SYNSET BOX"
            if name in synset_of:
                problem = "which another line has too"
            raise DataError(
                f"{lists.name}: {_SOLUTION}, line {number} is {shown(line[:60])}, {problem}"
            )
        synset_of[name] = synset
    return synset_of


def _unpacked(folder: Path, rendition: str) -> Tree:
    """The images of a folder, by the names that they have in the zip."""
    inside = folder_tree(folder / rendition)
    before = f"{rendition}/"
    sizes = {before + name: size for name, size in inside.sizes.items()}
    return Tree(str(folder), sizes, lambda name: inside.opened(name.removeprefix(before)))


def _listed(
    lists: Tree,
    list_names: Sequence[str],
    rendition: str,
    sizes: Mapping[str, int],
    where: str,
    names: dict[int, str],
) -> list[tuple[str, int, int]]:
    """Path, number of the class and place of the list for every line of the official lists of one
    rendition.

    `sizes`: the images RENDITION/CLASS/FILE, with their bytes, which `where` holds. `names` gathers
    the class of each number. Raises `DataError` where lists, images and the names known so far do
    not agree.
    """
    listed_rows: dict[str, tuple[int, int]] = {}
    for list_number, name in enumerate(list_names):
        if name not in lists.sizes:
            raise DataError(f"{lists.name} has no official list {name}")
        for path, number in listed(lists, name):
            path_parts = path.split("/")
            problem = ""
            if len(path_parts) != 3 or path_parts[0] != rendition:
                problem = f"which should be {rendition}/CLASS/FILE"
            elif not sizes.get(path):
                problem = f"which {where} does not hold, or which is empty"
            elif names.setdefault(number, path_parts[1]) != path_parts[1]:
                problem = f"with the number {number}, which is that of {names[number]!r}"
            elif path in listed_rows:
                problem = "which is in the other list too"
            if problem:
                raise DataError(f"{lists.name}: {name} lists {path!r}, {problem}")
            listed_rows[path] = number, list_number
    twice = [
        number
        for number, name in names.items()
        if list(names.values()).index(name) < list(names).index(number)
    ]
    if twice:
        raise DataError(
            f"{lists.name}: the lists of {rendition!r} give the class {names[twice[0]]!r} two"
            " numbers"
        )
    return [(path, number, list_number) for path, (number, list_number) in listed_rows.items()]
