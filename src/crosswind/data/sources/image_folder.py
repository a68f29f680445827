"""A folder of the user's own pictures, whose folders say what they show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError, InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.types import digest_arrays
from crosswind.data.attributes import MOST_VALUES, Attribute, AttributeTable
from crosswind.data.decoding import IMAGE_ENDINGS, named_files
from crosswind.data.sources.base import PreparedSource, Reading, from_files, names_chosen, positions
from crosswind.data.trees import Tree, folder_tree, in_order

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
    card = card_of("image-folder")

    def read(self, folder: Path) -> Reading:
        """The images below `path`. Raises `InputError` for settings, `DataError` for what the folder holds."""
        top = Path(self.path).expanduser()
        if not top.is_dir():
            problem = "is not a folder" if top.exists() else "is a folder that does not exist"
            raise InputError("image-folder.path", f"{self.path!r} {problem}")
        named = [name for name in self.levels if name != NO_ATTRIBUTE] if isinstance(self.levels, list) else self.levels
        names_chosen(named, "image-folder.levels", "level")
        tree = folder_tree(top, self.path)
        files = self._images(tree)
        attributes, codes = [], []
        for place, name in enumerate(self.levels):
            if name == NO_ATTRIBUTE:
                continue
            words = [file.split("/")[place] for file in files]
            values = in_order(words)
            empty = [
                inside for inside in tree.folders if inside.count("/") == place and inside.split("/")[place] not in set(values)
            ]
            if empty:
                raise DataError(f"{self.path}: the folder {_several(empty)} holds no image, so there is nothing of its {name!r}")
            if len(values) > MOST_VALUES:
                raise DataError(f"{self.path}: {name!r} has {len(values):,} values, more than {MOST_VALUES:,}; call its level '-'")
            attributes.append(Attribute(name, tuple(values)))
            codes.append(positions(words, values))
        bytes_of = np.array([tree.sizes[file] for file in files])
        names = np.frombuffer("\x1f".join(files).encode(), np.uint8)
        dataset = from_files(
            top.resolve().name or "image-folder",
            AttributeTable(tuple(attributes), np.stack(codes)),
            lambda row: tree.opened(files[row]),
            lambda row: f"{self.path}: {files[row]!r}",
            self.size,
            told={"source": "image-folder", "files": digest_arrays({"names": names, "bytes": bytes_of})},
            **named_files(top, files),
        )
        return Reading(dataset, {"all": len(files)})

    def _images(self, tree: Tree) -> list[str]:
        """The names of the images, in order; `DataError` for the first file that should not be where it is."""
        layout = "/".join([*(name.upper() for name in self.levels), "FILE"])
        files = [name for name in tree.sizes if name.lower().endswith(IMAGE_ENDINGS)]
        others = [name for name in tree.sizes if not name.lower().endswith(IMAGE_ENDINGS)]
        if others and self.others == "refuse":
            raise DataError(f"{tree.name}: {_several(others)} is no image by its name; take it away, or set others=skip")
        for name in files:
            problem = ""
            if name.count("/") != len(self.levels):
                where = "above" if name.count("/") < len(self.levels) else "below"
                problem = f"lies {where} the folders that 'levels' names; each image should be {layout}"
            elif not tree.sizes[name]:
                problem = "is empty"
            elif not name.isprintable():
                problem = "has a line break or another control character in its name"
            if problem:
                raise DataError(f"{tree.name}: {name!r} {problem}")
        if not files:
            raise DataError(f"{tree.name} holds no image; each should be {layout}")
        return files


def _several(names: list[str]) -> str:
    return f"{names[0]!r}{f' and {len(names) - 1:,} more' if len(names) > 1 else ''}"
