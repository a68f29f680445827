"""The test sets beside ImageNet whose folders are named after its classes: ImageNet-C, V2, Sketch,
R and A, and ObjectNet."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import Original, card_of
from crosswind.core.errors import DataError, InputError, shown
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset
from crosswind.data.imagenet_classes import groups, in_classes, synsets
from crosswind.data.sources.base import Reading, names_chosen, positions
from crosswind.data.sources.packed_trees import PackedTrees
from crosswind.data.trees import in_order

_FILE = r"[^/]+\.(?i:jpe?g|png)"
_SYNSET = rf"(?P<label>n\d{{8}})/{_FILE}"
_BEFORE = r"(?P<before>(?:.*/)?)"
GROUPS = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
    "extra": ("speckle_noise", "gaussian_blur", "spatter", "saturate"),
}
"""The archives of ImageNet-C and the folders in each."""
_TRANSFORMS = {"elastic_transform": "elastic", "jpeg_compression": "jpeg"}
CORRUPTIONS = {
    _TRANSFORMS.get(name, name.replace("_", "-")): name
    for names in GROUPS.values()
    for name in names
}
"""The corruptions of ImageNet-C under the names of our transforms -> their folders; the last four
are its extra ones."""


@dataclass(frozen=True, kw_only=True)
class ImageNetFamily(PackedTrees):
    """A source of pictures of ImageNet's classes, in folders named after them."""

    classes: str = knob(
        "present",
        domain="{present, all, imagenet-a, imagenet-r}",
        doc=(
            "classes that have a picture; all 1,000, in the order of a network's outputs; or the"
            " 200 of a subset"
        ),
    )

    after = ("classes",)
    pattern: ClassVar[re.Pattern[str]] = re.compile(_BEFORE + _SYNSET)
    """Of the place of a picture: groups `before`, `label` and one for each other attribute."""

    def label_of(self, match: re.Match[str]) -> str | None:
        """The synset of a picture, None for a picture that is left out."""
        return match["label"]

    def extras(self, matches: Sequence[re.Match[str]]) -> list[tuple[Attribute, NDArray[np.int64]]]:
        """The attributes beside the class, with the code of each picture."""
        return []

    def known(self) -> Sequence[str]:
        """The classes that there can be, in their order."""
        return synsets()

    def read(self, folder: Path) -> Reading:
        """The pictures by class and name of the file. Raises `DataError` for a folder that is no
        class, and where there is none."""
        tree = self.tree(folder)
        code_of = {name: code for code, name in enumerate(self.known())}
        matches: list[re.Match[str]] = []
        labels = array("i")
        for match in self.pictures(tree, self.pattern):
            name = self.label_of(match)
            if name is not None and name not in code_of:
                problem = (
                    f"{tree.name}: {match[0]!r} is in a folder that is none of the {len(code_of):,}"
                    " classes"
                )
                raise DataError(problem)
            if name is not None:
                matches.append(match)
                labels.append(code_of[name])
        if not matches:
            raise DataError(
                f"{tree.name} holds none of the pictures that are asked for ({self.card.get})"
            )
        codes = np.array(labels, dtype=np.int64)
        extras = self.extras(matches)
        order = np.lexsort(
            [codes, *(column for _, column in reversed(extras))]
        )  # pictures of a tree are sorted by name
        files = [matches[position][0] for position in order]
        present_codes, codes = np.unique(codes[order], return_inverse=True)
        label = Attribute("class", tuple(self.known()[code] for code in present_codes))
        attributes = (label, *(attribute for attribute, _ in extras))
        table = AttributeTable(
            attributes, np.stack([codes, *(column[order] for _, column in extras)])
        )
        units = self.units(files)
        dataset = self.of_files(table, tree, files, units, **self.more())
        return Reading(dataset, {"all": len(files)})

    def units(self, files: Sequence[str]) -> NDArray[np.int64] | None:
        """The unit of each picture, None where each is its own."""
        return None

    def more(self) -> dict[str, Any]:
        """Further arguments of the data set."""
        return {}

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The copy with the classes asked for."""
        return in_classes(dataset, self.classes)


@register("imagenet-c", kind="source")
@dataclass(frozen=True)
class ImageNetC(ImageNetFamily):
    """ImageNet-C: the 50,000 validation pictures of ImageNet under corruptions of severity 1 to 5,
    as published.

    Attributes: `class` (synsets), `corruption` (named as our transforms are), `severity` (1 to 5).
    A validation picture is a unit, so that all its corrupted forms have one role. By default the
    fifteen corruptions of the benchmark are read; `corruptions` names some, or the four extra ones
    (speckle-noise, gaussian-blur, spatter, saturate) too, and only their archives are needed.
    Published pictures are of 224 x 224 pixels. Use `--store jpeg`: all fifteen take 564 GB as
    arrays of 224 pixels.
    Reference: D. Hendrycks, T. Dietterich, Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR 2019.
    """

    corruptions: list[str] | None = knob(
        None, doc="which corruptions are read; the fifteen of the benchmark by default"
    )
    severities: list[int] | None = knob(
        None, doc="which severities are read, of 1 to 5; all by default"
    )

    card = card_of("imagenet-c")
    over = tuple(GROUPS)
    pattern = re.compile(
        rf"{_BEFORE}(?P<corruption>{'|'.join(CORRUPTIONS.values())})/(?P<severity>[1-5])/{_SYNSET}"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.corruptions is not None:
            corruptions = names_chosen(
                self.corruptions, "imagenet-c.corruptions", "corruption", CORRUPTIONS
            )
            chosen = [
                name for name in CORRUPTIONS if name in corruptions
            ]  # one order, so that the same choice is the same copy
            object.__setattr__(self, "corruptions", None if chosen == self._fifteen() else chosen)
        if (levels := self.severities) is not None:
            if not isinstance(levels, list) or not levels or not set(levels) <= {1, 2, 3, 4, 5}:
                raise InputError(
                    "imagenet-c.severities",
                    f"must be a list of severities, not {shown(levels)}",
                    range(1, 6),
                )
            object.__setattr__(
                self, "severities", None if len(set(levels)) == 5 else sorted(set(levels))
            )

    @staticmethod
    def _fifteen() -> list[str]:
        return [name for name, folder in CORRUPTIONS.items() if folder not in GROUPS["extra"]]

    @cached_property
    def _chosen(self) -> tuple[list[str], list[str]]:
        return self.corruptions or self._fifteen(), list(map(str, self.severities or range(1, 6)))

    @cached_property
    def _folders(self) -> frozenset[tuple[str, str]]:
        return frozenset(
            (CORRUPTIONS[name], severity)
            for name in self._chosen[0]
            for severity in self._chosen[1]
        )

    def variants(self) -> tuple[str, ...]:
        """The archives that hold the corruptions."""
        folders = {CORRUPTIONS[name] for name in self._chosen[0]}
        return tuple(group for group, names in GROUPS.items() if folders.intersection(names))

    def totals(self) -> Mapping[str, int]:
        """50,000 pictures for each corruption and severity."""
        corruptions, severities = self._chosen
        return {"all": 50_000 * len(corruptions) * len(severities)}

    def label_of(self, match: re.Match[str]) -> str | None:
        """The synset; pictures of other corruptions and severities are left out."""
        if (match["corruption"], match["severity"]) in self._folders:
            return match["label"]
        return None

    def extras(self, matches: Sequence[re.Match[str]]) -> list[tuple[Attribute, NDArray[np.int64]]]:
        """Corruption and severity. Raises `DataError` where there is no picture of one that is
        asked for."""
        corruptions, severities = self._chosen
        corruption_codes = positions(
            (match["corruption"] for match in matches), [CORRUPTIONS[name] for name in corruptions]
        )
        columns = (
            corruption_codes,
            positions((match["severity"] for match in matches), severities),
        )
        counts = np.zeros((len(corruptions), len(severities)), dtype=np.int64)
        np.add.at(counts, columns, 1)
        if not counts.all():
            corruption, severity = np.argwhere(counts == 0)[0]
            missing_words = f"{corruptions[corruption]} of severity {severities[severity]}"
            raise DataError(f"imagenet-c: there is no picture of {missing_words} ({self.card.get})")
        return [
            (Attribute("corruption", tuple(corruptions)), columns[0]),
            (Attribute("severity", tuple(severities)), columns[1]),
        ]

    def units(self, files: Sequence[str]) -> NDArray[np.int64]:
        """One unit for each validation picture, known by the name of its file."""
        unit_of: dict[str, int] = {}
        return np.array(
            [unit_of.setdefault(name.rpartition("/")[2], len(unit_of)) for name in files],
            dtype=np.int64,
        )


@register("imagenet-v2", kind="source")
@dataclass(frozen=True)
class ImageNetV2(ImageNetFamily):
    """ImageNetV2: 10,000 new pictures of ImageNet's 1,000 classes, ten a class, gathered as its
    validation set was.

    Attribute: `class` (synsets; the folders of the archive are named by place, 0 to 999).
    `edition`: `matched-frequency` chooses pictures as often agreed upon as ImageNet's,
    `threshold-0.7` those that seven in ten people agreed upon, `top-images` the best.
    Reference: B. Recht, R. Roelofs, L. Schmidt, V. Shankar, Do ImageNet Classifiers Generalize to
    ImageNet?, ICML 2019.
    """

    edition: str = knob(
        "matched-frequency",
        domain="{matched-frequency, threshold-0.7, top-images}",
        doc="which of the three sets",
    )

    card = card_of("imagenet-v2")

    def variants(self) -> tuple[str, ...]:
        """The archive of the edition."""
        return (self.edition,)

    def __post_init__(self) -> None:
        super().__post_init__()
        folder = re.escape(f"imagenetv2-{self.edition.replace('d-0.7', 'd0.7')}-format-val")
        object.__setattr__(
            self,
            "pattern",
            re.compile(rf"(?P<before>(?:(?:.*/)?{folder}/)?)(?P<label>\d{{1,3}})/{_FILE}"),
        )

    def label_of(self, match: re.Match[str]) -> str | None:
        """The synset at the place that the folder names."""
        return synsets()[int(match["label"])]


@register("imagenet-sketch", kind="source")
@dataclass(frozen=True)
class ImageNetSketch(ImageNetFamily):
    """ImageNet-Sketch: 50,889 black and white sketches of ImageNet's 1,000 classes, about fifty a
    class.

    Attribute: `class` (synsets).
    Reference: H. Wang, S. Ge, E. Xing, Z. Lipton, Learning Robust Global Representations by
    Penalizing Local Predictive Power, NeurIPS 2019.
    """

    card = card_of("imagenet-sketch")


@register("imagenet-r", kind="source")
@dataclass(frozen=True)
class ImageNetR(ImageNetFamily):
    """ImageNet-R: 30,000 renditions (art, cartoons, toys, ...) of 200 of ImageNet's classes.

    Attributes: `class` (synsets), `rendition` (what the name of the file begins with, in the order
    of the alphabet).
    Reference: D. Hendrycks et al., The Many Faces of Robustness: A Critical Analysis of
    Out-of-Distribution Generalization, ICCV 2021.
    """

    card = card_of("imagenet-r")
    pattern = re.compile(rf"{_BEFORE}(?P<label>n\d{{8}})/(?P<rendition>[A-Za-z]+)_{_FILE}")

    def extras(self, matches: Sequence[re.Match[str]]) -> list[tuple[Attribute, NDArray[np.int64]]]:
        """The rendition."""
        words = [match["rendition"] for match in matches]
        values = in_order(words)
        return [(Attribute("rendition", tuple(values)), positions(words, values))]


@register("imagenet-a", kind="source")
@dataclass(frozen=True)
class ImageNetA(ImageNetFamily):
    """ImageNet-A: 7,500 photographs of 200 of ImageNet's classes that a ResNet-50 was wrong about.

    Attribute: `class` (synsets). They were chosen by a network's mistakes: accuracy is low by
    construction.
    Reference: D. Hendrycks, K. Zhao, S. Basart, J. Steinhardt, D. Song, Natural Adversarial
    Examples, CVPR 2021.
    """

    card = card_of("imagenet-a")


@register("objectnet", kind="source")
@dataclass(frozen=True)
class ObjectNet(ImageNetFamily):
    """ObjectNet: 18,574 photographs of 113 kinds of household things that ImageNet has too, in odd
    places, poses and views.

    Attribute: `class` (names of the folders, such as alarm_clock). A kind may be several of
    ImageNet's classes (a chair is three): a network with ImageNet's 1,000 outputs answers by the
    largest of them. Pictures of the other 200 kinds are not read. A picture has a red border, of
    which two pixels are cut off at each side, as its authors' loader does. The archive is packed
    with a password, so that it is unpacked by hand; its authors ask that no network is trained on
    it.
    Reference: A. Barbu et al., ObjectNet: A large-scale bias-controlled dataset for pushing the
    limits of object recognition models, NeurIPS 2019.
    """

    classes: str = knob(
        "present", domain="{present}", doc="its own 113 kinds, or those that have a picture"
    )

    card = card_of("objectnet")
    pattern = re.compile(rf"{_BEFORE}images/(?P<label>[^/]+)/{_FILE}")

    def missing(self, folder: Path) -> tuple[Original, ...]:
        """The unpacked folder, named by its archive."""
        is_unpacked = folder.is_dir() and any(
            entry_path.is_dir() for entry_path in folder.iterdir()
        )
        return () if is_unpacked else (Original("objectnet-1.0 (unpacked from objectnet-1.0.zip)"),)

    def known(self) -> Sequence[str]:
        """The kinds that ImageNet has too."""
        return tuple(groups("objectnet"))

    def label_of(self, match: re.Match[str]) -> str | None:
        """The kind; one that ImageNet has not is left out."""
        if match["label"] in groups("objectnet"):
            return match["label"]
        return None

    def more(self) -> dict[str, Any]:
        """The border that is cut off."""
        return {"border": 2}
