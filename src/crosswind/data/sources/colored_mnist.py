"""Colored MNIST: the digits of MNIST in ten colours, or the two-coloured binary problem of invariant risk minimisation."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import Original, card_of
from crosswind.core.errors import DataError, InputError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.seeds import hash64, seed_of, stream
from crosswind.core.types import InputSpec, digest
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset, Images
from crosswind.data.sources.base import PreparedSource, Reading, mnist_files

COLORS = {
    "crimson": (220, 20, 60),
    "teal": (0, 128, 128),
    "lemon": (253, 233, 16),
    "bondi-blue": (0, 149, 182),
    "carrot-orange": (237, 145, 33),
    "strong-violet": (145, 30, 188),
    "cyan": (70, 240, 240),
    "your-pink": (250, 197, 187),
    "lime": (210, 245, 60),
    "maroon": (128, 0, 0),
}
CLASSES = ("0-4", "5-9")
CHANNELS = ("red", "green")  # in the order of the picture's channels
ENVIRONMENTS = {"0.1": 0.1, "0.2": 0.2, "0.9": 0.9}  # name -> how often the colour is the other class's
LABEL_NOISE = 0.25


@register("colored-mnist", kind="source")
@dataclass(frozen=True)
class ColoredMnist(PreparedSource):
    """MNIST's 70,000 digits in ten colours; with `version: irm` its 60,000 training digits as the binary problem of IRM.

    `ten`. Attributes: `digit`, `color`, `split` (train, test). A colour is dealt to each row by seed whatever its digit, evenly
    within each digit of each part, so that shifts do the rest. `paint` colours the digit on black, or the ground behind a white
    digit. The ten colours are the means of those in Kim et al. 2019, who drew around them: here a colour has no spread.

    `irm`. Attributes: `label` (0-4, 5-9: the digit's side, then the other one in a quarter of the rows), `color` (green, red: that
    of the label, green for 0-4, then the other one in a share e of the rows), `environment` (e: 0.1, 0.2 for training, 0.9 for
    testing), `digit` (the true one), `split` (train, test, by environment). As in the authors' program every second pixel of
    every second row is kept (14 x 14), the channel of the other colour is zero, the first 50,000 rows are shuffled and take turns
    as environments 0.2 and 0.1, the last 10,000 are environment 0.9, and MNIST's own test rows are left out. Their test
    environment also chose their settings. Who is flipped is drawn by seed, so no row is theirs. `channels: 3` adds an empty blue.

    References: M. Arjovsky, L. Bottou, I. Gulrajani, D. Lopez-Paz, Invariant risk minimization, 2019, section 5.2 and its program;
    B. Kim et al., Learning not to learn: training deep neural networks with biased data, 2019; for MNIST see `mnist`.
    """

    size: int = knob(28, domain="[4, 512]", doc="side of the picture in pixels, 28 for irm, which halves it")
    version: str = knob("ten", domain="{ten, irm}", doc="ten colours over ten digits, or the binary problem of IRM")
    paint: str = knob("digit", domain="{digit, ground}", doc="what has the colour in version ten")
    channels: int | None = knob(None, domain="{2, 3}", doc="3 in version ten; in irm 2, as the authors have it, or 3")
    seed: int = knob(0, domain="[0, inf)", doc="deals the colours; in irm also the environments and who is flipped")

    copy = "mnist"
    after = ("version", "paint", "channels", "seed")
    card = card_of("colored-mnist")

    def originals(self) -> tuple[Original, ...]:
        """The four files of MNIST, as its card names them."""
        return card_of("mnist").files

    def read(self, folder: Path) -> Reading:
        """The four files of MNIST in `folder`, each raw or gzip."""
        return mnist_files(folder, "mnist", Attribute("digit", tuple("0123456789")), self.size)

    def load(self) -> AttributedDataset:
        """The data set of MNIST's copy in colour. Raises `InputError` for settings that do not fit, `DataError` for no copy."""
        if self.version == "ten" and self.channels == 2:
            raise InputError("colored-mnist.channels", "version ten has 3 channels", [3])
        if self.version == "irm" and self.size != 28:
            raise InputError("colored-mnist.size", "version irm halves pictures of 28 pixels a side", [28])
        if self.version == "irm" and self.paint != "digit":
            raise InputError("colored-mnist.paint", "version irm colours the digit", ["digit"])
        return super().load()

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The copy of MNIST in colour. Raises `DataError` for a copy that holds something else."""
        if dataset.table.names != ("digit", "split") or dataset.read is None or dataset.image_shape != (self.size, self.size, 1):
            raise DataError("the prepared copy of mnist holds other data than MNIST; prepare it again")
        told: dict[str, object] = {"of": dataset.fingerprint, "colored-mnist": 1, "version": self.version, "seed": self.seed}
        if self.version == "irm":
            channels = self.channels or 2
            return _irm(dataset, self.seed, channels, digest({**told, "channels": channels}))
        color = _dealt(dataset, self.seed)
        images = _painted(dataset.read, color, self.paint == "ground")
        attributes = (*dataset.table.attributes, Attribute("color", tuple(COLORS)))
        return dataclasses.replace(
            dataset,
            name="colored-mnist",
            table=AttributeTable(attributes, np.concatenate([dataset.table.codes, color[None]])),
            read=images,
            input=InputSpec.image(self.size, self.size, 3),
            fingerprint=digest({**told, "paint": self.paint}),
        )


def _dealt(dataset: AttributedDataset, seed: int) -> NDArray[np.uint8]:
    """A colour for every row, as often as any other among the rows of one digit and part, to within one: uint8 [n]."""
    digit, split = dataset.table.codes
    keys = hash64(dataset.ids, seed_of(seed, "colored-mnist", "colors"))
    group = split.astype(np.int64) * 10 + digit
    order = np.lexsort((keys, group))
    counts = np.bincount(group, minlength=20)
    turn = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    # Which colours begin differs by group, so that those that get one row more are not the same ones everywhere.
    first = (hash64(np.arange(20), seed_of(seed, "colored-mnist", "first")) % np.uint64(10)).astype(np.int64)
    color = np.empty(len(order), dtype=np.uint8)
    color[order] = (turn + np.repeat(first, counts)) % 10
    return color


def _painted(grey: Images, color: NDArray[np.uint8], ground: bool) -> Images:
    inks = np.array(list(COLORS.values()), dtype=np.uint16)

    def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        cover = grey(rows).astype(np.uint16)
        ink = inks[color[rows]][:, None, None]
        if ground:
            mixed = (ink * (255 - cover) + 255 * cover + 127) // 255
        else:
            mixed = (ink * cover + 127) // 255
        return mixed.astype(np.uint8)

    return images


def _irm(dataset: AttributedDataset, seed: int, channels: int, fingerprint: str) -> AttributedDataset:
    kept = dataset.keep({"split": ["train"]})
    grey, n = kept.read, kept.n_base
    assert grey is not None
    digit = kept.table.column("digit")
    first = n * 5 // 6  # 50,000 of 60,000
    environment = np.full(n, 2, dtype=np.uint8)
    order = stream(seed, "colored-mnist", "environments").permutation(first)
    environment[order[::2]], environment[order[1::2]] = 1, 0
    # By row id, so that a row is flipped or not whoever stands beside it.
    uniform = {name: _uniform(kept.ids, seed_of(seed, "colored-mnist", name)) for name in ("label", "color")}
    label = (digit >= 5) ^ (uniform["label"] < LABEL_NOISE)
    color = label ^ (uniform["color"] < np.array(list(ENVIRONMENTS.values()))[environment])
    shown = (~color).astype(np.int64)  # the channel: green stands second in the picture and first among the values

    def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        small = grey(rows)[:, ::2, ::2, 0]
        out = np.zeros((*small.shape, channels), dtype=np.uint8)
        np.put_along_axis(out, shown[rows][:, None, None, None], small[..., None], axis=3)
        return out

    attributes = (
        Attribute("label", CLASSES),
        Attribute("color", CHANNELS[::-1]),
        Attribute("environment", tuple(ENVIRONMENTS)),
        Attribute("digit", tuple("0123456789")),
        Attribute("split", ("train", "test")),
    )
    codes = np.stack([label, color, environment, digit, environment == 2]).astype(np.uint8)
    return dataclasses.replace(
        kept,
        name="colored-mnist",
        table=AttributeTable(attributes, codes),
        read=images,
        input=InputSpec.image(14, 14, channels),
        fingerprint=fingerprint,
    )


def _uniform(ids: NDArray[np.int64], key: int) -> NDArray[np.float64]:
    return (hash64(ids, key) >> np.uint64(11)).astype(np.float64) * 2.0**-53
