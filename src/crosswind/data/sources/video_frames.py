"""Frames of videos with ImageNet's classes, in sets of frames that look alike: ImageNet-Vid-Robust
and YTBB-Robust."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from crosswind.core.cards import Original, card_of
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.imagenet_classes import groups
from crosswind.data.sources.base import Reading, positions
from crosswind.data.sources.packed_trees import File, PackedTrees, listed_files
from crosswind.data.trees import Tree

FRAMES, LABELS = ("anchor", "neighbour"), ("one", "several")
_MOST = 256 << 20
Frames = dict[str, tuple[str, int, int]]
"""Place of a frame -> its class, whether it is a neighbour, and whether it has several labels."""


@dataclass(frozen=True, kw_only=True)
class VideoFrames(PackedTrees):
    """A source of frames that the labels of `frames_of` name, in one archive for both data sets or
    unpacked."""

    frames: str = knob(
        "all",
        domain="{all, anchor}",
        doc="all frames, or of each set the one that the others look like",
    )
    group: ClassVar[str]

    def originals(self) -> tuple[Original, ...]:
        """The archive, which holds both data sets."""
        return (Original("imagenet_vid_ytbb_robust.tar.gz"),)

    def frames_of(self, folder: Path, tree: Tree) -> Frames:
        """The frames. Raises `DataError`."""
        raise NotImplementedError

    def read(self, folder: Path) -> Reading:
        """The frames by place. A video is a unit."""
        tree = self.tree(folder)
        frames = {}
        for name, frame_facts in sorted(self.frames_of(folder, tree).items()):
            if self.frames == "all" or not frame_facts[1]:
                frames[name] = frame_facts
        files = listed_files(tree, frames, f"{tree.name}, the labels")
        class_names = tuple(groups(self.group))
        label, neighbour, several = zip(*frames.values(), strict=True)
        codes = np.stack([positions(label, class_names), neighbour, several])
        attributes = (
            Attribute("class", class_names),
            Attribute("frame", FRAMES),
            Attribute("labels", LABELS),
        )
        _, video = np.unique([name.split("/")[-2] for name in files], return_inverse=True)
        units = video.astype(np.int64)
        table = AttributeTable(attributes, codes)
        dataset = self.of_files(table, tree, files, units)
        return Reading(dataset, {"all": len(files)})


@register("imagenet-vid", kind="source")
@dataclass(frozen=True)
class ImageNetVid(VideoFrames):
    """ImageNet-Vid-Robust: 1,109 frames of videos of ImageNet-Vid, each with the up to twenty
    frames around it that look alike.

    Attributes: `class` (30, named as ImageNet-Vid names them), `frame` (anchor, neighbour),
    `labels` (one, several: an answer is right there if it is one of them, and `class` is the
    first). A network with ImageNet's 1,000 outputs answers by the largest of those that count as a
    class. A video is a unit. Accuracy on anchors is the paper's pm-0; its pm-k asks for all frames
    of a set.
    Reference: V. Shankar et al., Do Image Classifiers Generalize Across Time?, ICCV 2021.
    """

    card = card_of("imagenet-vid")
    group = "imagenet-vid"

    def frames_of(self, folder: Path, tree: Tree) -> Frames:
        """The frames of `metadata/pmsets.json` with the labels of `metadata/labels.json`."""
        where = next((name for name in tree.sizes if name.endswith("metadata/pmsets.json")), None)
        if where is None:
            raise DataError(f"{tree.name} has no file metadata/pmsets.json ({self.card.get})")
        before = where.removesuffix("metadata/pmsets.json")
        sets = _json((tree, where), dict)
        labels = _json((tree, f"{before}metadata/labels.json"), dict)
        class_names = tuple(groups(self.group))
        frames = {}
        for anchor, neighbours in sets.items():
            for position, name in enumerate(
                [*neighbours, anchor] if isinstance(neighbours, list) else [None]
            ):
                frame_labels = labels.get(name) if isinstance(name, str) else None
                if (
                    not isinstance(frame_labels, list)
                    or not frame_labels
                    or not set(frame_labels) <= set(range(len(class_names)))
                ):
                    raise DataError(
                        f"{tree.name}: metadata/labels.json has no labels of {name!r}, which is in"
                        f" the set of {anchor!r}"
                    )
                # A frame may be an anchor and the neighbour of another one: it is an anchor then.
                frame_facts = (
                    class_names[frame_labels[0]],
                    int(position < len(neighbours)),
                    int(len(frame_labels) > 1),
                )
                if frame_facts[1] == 0 or before + name not in frames:
                    frames[before + name] = frame_facts
        return frames


@register("ytbb", kind="source")
@dataclass(frozen=True)
class Ytbb(VideoFrames):
    """YTBB-Robust: frames of YouTube-BoundingBoxes, each with the up to twenty frames around it
    that people called similar.

    Attributes: `class` (24; cow, giraffe, skateboard, toilet and none are no classes of ImageNet),
    `frame` (anchor, neighbour), `labels` (one, several: an answer is right there if it is one of
    them, and `class` is that of YouTube-BoundingBoxes). Read are anchors that people called good
    and, of the frames around them, those that they called similar. A video is a unit.
    Reference: V. Shankar et al., Do Image Classifiers Generalize Across Time?, ICCV 2021.
    """

    card = card_of("ytbb")
    group = "ytbb"

    def frames_of(self, folder: Path, tree: Tree) -> Frames:
        """The frames under `ytbb_videos` that the three lists of annotations leave."""
        names = (ANCHORS, PAIRS, CLASSES)
        lists = self.lists(folder, tree, names)
        class_names = tuple(groups(self.group))
        videos = next((name for name in tree.sizes if "ytbb_videos/" in name), None)
        if videos is None:
            raise DataError(f"{tree.name} has no folder ytbb_videos ({self.card.get})")
        before = videos[: videos.index("ytbb_videos/")] + "ytbb_videos/"
        classes = _classes(lists[CLASSES], class_names)
        pairs = {key: words for key, words in _annotations(lists[PAIRS]).items() if "," in key}
        bad = {_key(key.split(",")[0]) for key, words in pairs.items() if "bad-anchor" in words}
        frames: Frames = {}
        several: dict[str, int] = {}
        for key, words in _annotations(lists[ANCHORS]).items():
            anchor = _key(key)
            if "good" not in words or words & {"bad", "unsure"} or anchor in bad:
                continue
            label = classes.get(anchor.split("/")[0])
            if label is None:
                problem = f"{lists[CLASSES][0].name}: {CLASSES} has no class of {anchor!r}"
                raise DataError(problem)
            several[anchor] = int(len({label, *words.intersection(class_names)}) > 1)
            frames[before + anchor] = (label, 0, several[anchor])
        for key, words in pairs.items():
            anchor, frame = (_key(key_part) for key_part in key.split(",", 1))
            if (
                anchor in several
                and "similar" in words
                and not words & _PROBLEMS
                and before + frame not in frames
            ):
                frames[before + frame] = (classes[anchor.split("/")[0]], 1, several[anchor])
        if not frames:
            raise DataError(f"{tree.name}: the annotations of ytbb leave no frame")
        return frames


ANCHORS, PAIRS, CLASSES = (
    "anchor_labels.json",
    "pmk_labels.json",
    "ytbb_robustness_test_anchors_full.csv",
)
_PROBLEMS = {
    "dissimilar",
    "problematic",
    "incorrect",
    "dont know",
    "deformation",
    "background-change",
    "occlusion-increased",
    "blur-increase",
    "bad-anchor",
}


def _key(path: str) -> str:
    """VIDEO_MILLISECONDS/frame-N.jpg, whatever lies above."""
    return "/".join(path.split("/")[-2:])


def _json(file: File, kind: type) -> Any:
    tree, name = file
    if name not in tree.sizes:
        raise DataError(f"{tree.name} has no file {name}")
    try:
        value = json.loads(tree.read(name, _MOST))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{tree.name}: {name} is no JSON: {error}") from None
    if not isinstance(value, kind) or not value:
        raise DataError(f"{tree.name}: {name} holds no annotations")
    return value


def _annotations(file: File) -> Mapping[str, set[str]]:
    """Key -> the words of its labels; of a key that was labelled twice the later ones."""
    annotation_lists = _json(file, dict)
    try:
        words = list(map(str, annotation_lists["labels"]))
        return {
            str(row["key"]): {words[label] for label in row["labels"]}
            for row in annotation_lists["annotations"]
        }
    except (KeyError, TypeError, IndexError):
        problem = (
            f"{file[0].name}: {file[1]} is no list of annotations (key, labels) with the names of"
            " its labels"
        )
        raise DataError(problem) from None


def _classes(file: File, class_names: Sequence[str]) -> dict[str, str]:
    """VIDEO_MILLISECONDS -> class. The list numbers car and none the other way round than the
    classes' own order."""
    tree, name = file
    lines = tree.read(name).decode("utf-8", "replace").splitlines()
    class_of = dict(enumerate([*class_names[:22], class_names[23], class_names[22]]))
    try:
        cells = [line.rsplit(",", 2) for line in lines[1:] if line.strip()]
        return {f"{video}_{time}": class_of[int(code)] for video, time, code in cells}
    except (ValueError, KeyError):
        raise DataError(f"{tree.name}: {name} is no table of ytid, time_ms and label") from None
