"""A folder of the user's own pictures, whose folders say what they show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crosswind.core.cards import Card
from crosswind.core.errors import DataError, InputError, shown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import digest, digest_arrays
from crosswind.data.attributes import MOST_VALUES, Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.decoding import IMAGE_ENDINGS, decoder, named_files
from crosswind.data.sources.base import PreparedSource, Reading
from crosswind.data.trees import Tree, folder_tree, in_order

__all__ = ["ImageFolder"]

NO_ATTRIBUTE = "-"


@register("image-folder", kind="source")
@dataclass(frozen=True)
class ImageFolder(PreparedSource):
    """A folder of image files, in folders named after what they show: CLASS/FILE, or as many levels as there are.

    `levels` names the attribute of each level of folders, from the top: `[rendition, class]` reads photo/dog/1.jpg; a level called
    `-` is no attribute. Each image lies exactly that deep. Files count as images by their ending, in capitals or not (jpg, jpeg,
    png, bmp, gif, webp, tif, tiff, ppm, pgm); any other file is refused by its name, unless `others` is `skip`. Hidden files and
    folders (those that begin with a dot, and Thumbs.db, desktop.ini, __MACOSX) are never seen; links that lead out of the folder
    and links to folders are refused, and so is a value of which there is no image. Rows are in the order of their paths; values are
    in numeric order where all are whole numbers, else sorted as text. Images are turned as their EXIF data say, made RGB
    (transparency is dropped), and resized to `size` x `size` without keeping their proportions. The fingerprint counts the bytes of
    each image and does not read them. For large folders, prepare a copy and name its `root`:
    `crosswind prepare image-folder --set path=FOLDER --root DIR`.
    """

    path: str = knob(doc="the folder")
    levels: list[str] = knob(["class"], doc="the attribute of each level of folders from the top, `-` for none")
    size: int = knob(64, domain="[4, 2048]", doc="side of the pictures in pixels")
    others: str = knob("refuse", domain="{refuse, skip}", doc="what is done with files that are no images by their names")

    own = ("path",)
    card = Card(
        attributes={"class": "the folders of your images, or what `levels` names"},
        shape="64 x 64 x 3 by default",
        licence="your own data",
        layout="FOLDER/CLASS/FILE as torchvision's ImageFolder reads it, or as many levels of folders as you name",
        get="give the path of your folder",
    )

    def read(self, folder: Path) -> Reading:
        """The images below `path`. Raises `InputError` for settings, `DataError` for what the folder holds."""
        top = Path(self.path).expanduser()
        if not top.is_dir():
            problem = "is not a folder" if top.exists() else "is a folder that does not exist"
            raise InputError("image-folder.path", f"{self.path!r} {problem}")
        levels = _levels(self.levels)
        tree = folder_tree(top, self.path)
        files = _images(tree, levels, self.others == "skip")
        attributes, codes = [], []
        for place, name in enumerate(levels):
            if name == NO_ATTRIBUTE:
                continue
            words = [file.split("/")[place] for file in files]
            values = in_order(words)
            _refuse_empty(tree, place, name, values)
            if len(values) > MOST_VALUES:
                raise DataError(f"{self.path}: {name!r} has {len(values):,} values, more than {MOST_VALUES:,}; call its level '-'")
            code_of = {value: code for code, value in enumerate(values)}
            attributes.append(Attribute(name, tuple(values)))
            codes.append(np.array([code_of[word] for word in words]))
        table = AttributeTable(tuple(attributes), np.stack(codes))
        bytes_of = np.array([tree.sizes[file] for file in files])
        told = {
            "source": "image-folder",
            "table": table.digest(),
            "size": self.size,
            "files": digest_arrays({"names": np.frombuffer("\x1f".join(files).encode(), np.uint8), "bytes": bytes_of}),
        }
        dataset = AttributedDataset(
            name=top.resolve().name or "image-folder",
            table=table,
            images=decoder(lambda row: tree.opened(files[row]), self.size, lambda row: f"{self.path}: {files[row]!r}"),
            image_shape=(self.size, self.size, 3),
            fingerprint=digest(told),
            from_files=True,
            **named_files(top, files),
        )
        return Reading(dataset, {"all": len(files)})


def _levels(given: object) -> list[str]:
    field = "image-folder.levels"
    if not isinstance(given, list) or not given or not all(isinstance(name, str) and name.strip() for name in given):
        raise InputError(field, f"must be a list of names, one for each level of folders, not {shown(given)}")
    named = [name for name in given if name != NO_ATTRIBUTE]
    if not named:
        raise InputError(field, "names no attribute")
    for place, name in enumerate(named):
        if name in named[:place]:
            raise InputError(field, f"names {name!r} twice")
    return list(given)


def _images(tree: Tree, levels: list[str], skip: bool) -> list[str]:
    """The names of the images, in order; `DataError` for the first file that should not be where it is."""
    layout = "/".join([*(name.upper() for name in levels), "FILE"])
    files = []
    others = [name for name in tree.sizes if not name.lower().endswith(IMAGE_ENDINGS)]
    if others and not skip:
        more = f" and {len(others) - 1:,} more" if len(others) > 1 else ""
        raise DataError(f"{tree.name}: {others[0]!r}{more} is no image by its name; take it away, or set others=skip")
    for name in tree.sizes:
        if not name.lower().endswith(IMAGE_ENDINGS):
            continue
        depth = name.count("/")
        if depth != len(levels):
            where = "above" if depth < len(levels) else "below"
            raise DataError(f"{tree.name}: {name!r} lies {where} the folders that 'levels' names; each image should be {layout}")
        if not tree.sizes[name]:
            raise DataError(f"{tree.name}: the file {name!r} is empty")
        if not name.isprintable():
            raise DataError(f"{tree.name}: the name {name!r} has a line break or another control character")
        files.append(name)
    if not files:
        raise DataError(f"{tree.name} holds no image; each should be {layout}")
    return files


def _refuse_empty(tree: Tree, place: int, name: str, values: list[str]) -> None:
    """A folder that would be a value of an attribute, had it an image anywhere."""
    known = set(values)
    empty = [folder for folder in tree.folders if folder.count("/") == place and folder.split("/")[place] not in known]
    if empty:
        more = f" and {len(empty) - 1:,} more" if len(empty) > 1 else ""
        raise DataError(f"{tree.name}: the folder {empty[0]!r}{more} holds no image, so there is nothing of its {name!r}")
