"""Small pictures of digits and clothing: MNIST, Fashion-MNIST, Colored MNIST, USPS and SVHN."""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import Original, card_of
from crosswind.core.errors import DataError, InputError, one_line
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.core.seeds import hash64, seed_of, stream
from crosswind.core.types import InputSpec, digest
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.dataset import AttributedDataset, Images
from crosswind.data.sources.base import (
    PicturesInChannels,
    Piece,
    PreparedSource,
    Reading,
    checked_labels,
    in_parts,
    original_file,
)

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
ENVIRONMENTS = {
    "0.1": 0.1,
    "0.2": 0.2,
    "0.9": 0.9,
}  # name -> how often the colour is the other class's
LABEL_NOISE = 0.25
USPS_SIDE, SVHN_SIDE = 16, 32
MOST_BYTES = 256 << 20  # of one file of USPS unpacked; the larger of the two has about 20 MB
MOST_LINES = 100_000  # a line of two bytes would take 2 kB of memory


@register("mnist", kind="source")
@dataclass(frozen=True)
class Mnist(PicturesInChannels):
    """70,000 handwritten digits in grey, 60,000 to train on and 10,000 to test on.

    Attributes: `digit` (0-9), `split` (train, test). The writers of the two parts are different
    people. Classes are named as those of `usps`, `svhn` and `digits`, so that each can be another's
    target; `size` and `channels` bring them to one shape.
    Reference: Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, Gradient-based learning applied to
    document recognition, 1998.
    """

    size: int = knob(
        28, domain="[4, 512]", doc="side of the picture in pixels; the original's is 28"
    )
    channels: int = knob(1, domain="{1, 3}", doc="1 for grey, 3 for grey in three equal channels")

    card = card_of("mnist")

    def read(self, folder: Path) -> Reading:
        """The four files of `folder`, each raw or gzip."""
        return _mnist_files(folder, "mnist", self.attributes()[0], self.size)


@register("fashion-mnist", kind="source")
@dataclass(frozen=True)
class FashionMnist(PicturesInChannels):
    """70,000 articles of clothing in grey, 60,000 to train on and 10,000 to test on, in the layout
    of MNIST.

    Attributes: `article` (T-shirt/top, Trouser, Pullover, Dress, Coat, Sandal, Shirt, Sneaker, Bag,
    Ankle boot), `split` (train, test). Debian's package dataset-fashion-mnist installs the same
    files, packed anew, in /usr/share/datasets/fashion-mnist.
    Reference: H. Xiao, K. Rasul, R. Vollgraf, Fashion-MNIST, arXiv:1708.07747, 2017.
    """

    size: int = knob(
        28, domain="[4, 512]", doc="side of the picture in pixels; the original's is 28"
    )
    channels: int = knob(1, domain="{1, 3}", doc="1 for grey, 3 for grey in three equal channels")

    card = card_of("fashion-mnist")

    def read(self, folder: Path) -> Reading:
        """The four files of `folder`, each raw or gzip."""
        return _mnist_files(folder, "fashion-mnist", self.attributes()[0], self.size)


@register("colored-mnist", kind="source")
@dataclass(frozen=True)
class ColoredMnist(PreparedSource):
    """MNIST's 70,000 digits in ten colours; with `version: irm` its 60,000 training digits as the
    binary problem of IRM.

    `ten`. Attributes: `digit`, `color`, `split` (train, test). A colour is dealt to each row by
    seed whatever its digit, evenly within each digit of each part, so that shifts do the rest.
    `paint` colours the digit on black, or the ground behind a white digit. The ten colours are the
    means of those in Kim et al. 2019, who drew around them: here a colour has no spread.

    `irm`. Attributes: `label` (0-4, 5-9: the digit's side, then the other one in a quarter of the
    rows), `color` (green, red: that of the label, green for 0-4, then the other one in a share e of
    the rows), `environment` (e: 0.1, 0.2 for training, 0.9 for testing), `digit` (the true one),
    `split` (train, test, by environment). As in the authors' program every second pixel of every
    second row is kept (14 x 14), and the channel of the other colour is zero. The first 50,000 rows
    are shuffled and take turns as environments 0.2 and 0.1, the last 10,000 are environment 0.9.
    MNIST's own test rows are left out. Their test environment also chose their settings. Who is
    flipped is drawn by seed, so no row is theirs. `channels: 3` adds an empty blue.

    References: M. Arjovsky, L. Bottou, I. Gulrajani, D. Lopez-Paz, Invariant risk minimization,
    2019, section 5.2 and its program; B. Kim et al., Learning not to learn: training deep neural
    networks with biased data, 2019; for MNIST see `mnist`.
    """

    size: int = knob(
        28, domain="[4, 512]", doc="side of the picture in pixels, 28 for irm, which halves it"
    )
    version: str = knob(
        "ten", domain="{ten, irm}", doc="ten colours over ten digits, or the binary problem of IRM"
    )
    paint: str = knob("digit", domain="{digit, ground}", doc="what has the colour in version ten")
    channels: int | None = knob(
        None, domain="{2, 3}", doc="3 in version ten; in irm 2, as the authors have it, or 3"
    )
    seed: int = knob(
        0,
        domain="[0, inf)",
        doc="deals the colours; in irm also the environments and who is flipped",
    )

    copy = "mnist"
    after = ("version", "paint", "channels", "seed")
    card = card_of("colored-mnist")

    def originals(self) -> tuple[Original, ...]:
        """The four files of MNIST, as its card names them."""
        return card_of("mnist").files

    def read(self, folder: Path) -> Reading:
        """The four files of MNIST in `folder`, each raw or gzip."""
        return _mnist_files(folder, "mnist", Attribute("digit", tuple("0123456789")), self.size)

    def load(self) -> AttributedDataset:
        """The data set of MNIST's copy in colour. Raises `InputError` for settings that do not fit,
        `DataError` for no copy."""
        needed: dict[str, Any]
        if self.version == "ten":
            needed = {"channels": 3}
        else:
            needed = {"size": 28, "paint": "digit"}
        for name, value in needed.items():
            if getattr(self, name) not in (None, value):
                problem = f"must be {value} in version {self.version}"
                raise InputError(f"colored-mnist.{name}", problem, [value])
        return super().load()

    def finish(self, dataset: AttributedDataset) -> AttributedDataset:
        """The copy of MNIST in colour. Raises `DataError` for a copy that holds something else."""
        if (
            dataset.table.names != ("digit", "split")
            or dataset.read is None
            or dataset.image_shape != (self.size, self.size, 1)
        ):
            raise DataError(
                "the prepared copy of mnist holds other data than MNIST; prepare it again"
            )
        identity: dict[str, object] = {
            "of": dataset.fingerprint,
            "colored-mnist": 1,
            "version": self.version,
            "seed": self.seed,
        }
        if self.version == "irm":
            channels = self.channels or 2
            return _irm(dataset, self.seed, channels, digest({**identity, "channels": channels}))
        digit, split = dataset.table.codes
        group = split.astype(np.int64) * 10 + digit
        order = np.lexsort(
            (hash64(dataset.ids, seed_of(self.seed, "colored-mnist", "colors")), group)
        )
        counts = np.bincount(group, minlength=20)
        # Which colours begin differs by group, so that those that get one row more are not the same
        # ones everywhere.
        first = (
            hash64(np.arange(20), seed_of(self.seed, "colored-mnist", "first")) % np.uint64(10)
        ).astype(np.int64)
        color = np.empty(len(order), dtype=np.uint8)
        first_of_digit = np.repeat(np.cumsum(counts) - counts - first, counts)
        color[order] = (np.arange(len(order)) - first_of_digit) % 10
        attributes = (*dataset.table.attributes, Attribute("color", tuple(COLORS)))
        codes = np.concatenate([dataset.table.codes, color[None]])
        table = AttributeTable(attributes, codes)
        fingerprint = digest({**identity, "paint": self.paint})
        ground = self.paint == "ground"
        return dataclasses.replace(
            dataset,
            name="colored-mnist",
            table=table,
            read=_painted(dataset.read, color, ground),
            input=InputSpec.image(self.size, self.size, 3),
            fingerprint=fingerprint,
        )


@register("usps", kind="source")
@dataclass(frozen=True)
class Usps(PicturesInChannels):
    """9,298 handwritten digits from envelopes in grey, 7,291 to train on and 2,007 to test on.

    Attributes: `digit` (0-9), `split` (train, test). Classes are named as those of `mnist`, `svhn`
    and `digits`, so that each can be another's target; `size` and `channels` bring them to one
    shape. The files hold grey as numbers from -1 (paper) to 1 (ink) and labels from 1 to 10, a
    digit plus one; a grey x becomes the level nearest to 127.5 (x + 1).
    Reference: J. Hull, A database for handwritten text recognition research, 1994.
    """

    size: int = knob(
        16, domain="[4, 512]", doc="side of the picture in pixels; the original's is 16"
    )
    channels: int = knob(1, domain="{1, 3}", doc="1 for grey, 3 for grey in three equal channels")

    card = card_of("usps")

    def read(self, folder: Path) -> Reading:
        """The two files of `folder`, each bzip2 or plain text."""
        pieces_of = {}
        for part_name, name in (("train", "usps.bz2"), ("test", "usps.t.bz2")):
            pieces_of[part_name] = [_usps_piece(original_file(folder, name))]
        return in_parts("usps", self.attributes()[0], pieces_of, self.size, 1)


@register("svhn", kind="source")
@dataclass(frozen=True)
class Svhn(PicturesInChannels):
    """99,289 digits cut out of photographs of house numbers, in colour; with `extra` 630,420.

    Attributes: `digit` (0-9), `split` (train, test, and extra where asked for: easier ones to train
    on as well). Classes are named as those of `mnist`, `usps` and `digits`, so that each can be
    another's target; `size` and `channels` bring them to one shape. The files call the digit 0 ten.
    Neighbouring digits of the house number are still seen at the sides.
    Reference: Y. Netzer et al., Reading digits in natural images with unsupervised feature
    learning, 2011.
    """

    size: int = knob(
        32, domain="[4, 512]", doc="side of the picture in pixels; the original's is 32"
    )
    channels: int = knob(3, domain="{1, 3}", doc="3 for colour, 1 for grey")
    extra: bool = knob(False, doc="with the 531,131 easier digits of the third file (1.3 GB)")

    card = card_of("svhn")

    def variants(self) -> tuple[str, ...]:
        """The third file, where it is asked for."""
        return ("extra",) if self.extra else ()

    def read(self, folder: Path) -> Reading:
        """The MATLAB files of `folder`."""
        pieces_of = {}
        for part_name in self.totals():
            pieces_of[part_name] = [self._piece(original_file(folder, f"{part_name}_32x32.mat"))]
        return in_parts("svhn", self.attributes()[0], pieces_of, self.size)

    def _piece(self, path: Path) -> Piece:
        from crosswind.data.archives.arrays import mat_shapes, read_mat, whole_mat

        variable_shapes = mat_shapes(self.trusted(path, whole_mat))
        if not {"X", "y"} <= set(variable_shapes):
            problem = (
                f"{path} has not both of the variables 'X' and 'y' but"
                f" {', '.join(map(repr, sorted(variable_shapes))) or 'none'}"
            )
            raise DataError(problem)
        (shape, kind), (labels, _) = variable_shapes["X"], variable_shapes["y"]
        if kind != "uint8" or shape[:3] != (SVHN_SIDE, SVHN_SIDE, 3) or not 3 <= len(shape) <= 4:
            raise DataError(
                f"{path} holds {kind} values of {' x '.join(map(str, shape))} in X, not uint8 of 32"
                " x 32 x 3 x n"
            )
        rows = shape[3] if len(shape) == 4 else 1  # MATLAB drops a last dimension of one
        if math.prod(labels) != rows:
            raise DataError(
                f"{path} holds {rows:,} pictures in X and {math.prod(labels):,} labels in y"
            )

        def pictures() -> NDArray[np.uint8]:
            # In the file a picture is one run of bytes, so this view of it is read in order.
            return (
                read_mat(path, "X")
                .reshape(SVHN_SIDE, SVHN_SIDE, 3, -1, order="F")
                .transpose(3, 0, 1, 2)
            )

        return checked_labels(read_mat(path, "y").ravel(), path, rows, 1, 10) % 10, pictures


def _mnist_files(folder: Path, name: str, label: Attribute, size: int) -> Reading:
    """The four files of MNIST's layout: grey pictures of 28 x 28, the training files before the
    test files (`t10k-`).

    Raises `DataError` for files that are missing, damaged, or do not agree.
    """
    from crosswind.data.archives.arrays import Expected, Matrix, open_matrix

    def pictures(matrix: Matrix) -> Callable[[], NDArray[np.uint8]]:
        return lambda: matrix.read()[..., None]

    pieces_of = {}
    for part_name, stem in {"train": "train", "test": "t10k"}.items():
        expected = Expected("uint8", (None, 28, 28))
        images = open_matrix(original_file(folder, f"{stem}-images-idx3-ubyte"), expected)
        labels = open_matrix(
            original_file(folder, f"{stem}-labels-idx1-ubyte"), Expected("uint8", (None,))
        )
        known_labels = checked_labels(
            labels.read(), labels.path, images.shape[0], 0, len(label) - 1
        )
        pieces_of[part_name] = [(known_labels, pictures(images))]
    return in_parts(name, label, pieces_of, size, 1)


def _painted(grey: Images, color: NDArray[np.uint8], ground: bool) -> Images:
    inks = np.array(list(COLORS.values()), dtype=np.uint16)

    def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        cover = grey(rows).astype(np.uint16)
        ink = inks[color[rows]][:, None, None]
        if ground:
            mixed = ink * (255 - cover) + 255 * cover
        else:
            mixed = ink * cover
        return ((mixed + 127) // 255).astype(np.uint8)

    return images


def _irm(
    dataset: AttributedDataset, seed: int, channels: int, fingerprint: str
) -> AttributedDataset:
    training_rows = dataset.keep({"split": ["train"]})
    grey = training_rows.read
    n = training_rows.n_base
    assert grey is not None
    digit = training_rows.table.column("digit")
    first = n * 5 // 6  # 50,000 of 60,000
    environment = np.full(n, 2, dtype=np.uint8)
    order = stream(seed, "colored-mnist", "environments").permutation(first)
    environment[order[::2]], environment[order[1::2]] = 1, 0
    # By row id, so that a row is flipped or not whoever stands beside it.
    keys = (
        hash64(training_rows.ids, seed_of(seed, "colored-mnist", name))
        for name in ("label", "color")
    )
    for_label, for_color = ((key >> np.uint64(11)).astype(np.float64) * 2.0**-53 for key in keys)
    label = (digit >= 5) ^ (for_label < LABEL_NOISE)
    color = label ^ (for_color < np.array(list(ENVIRONMENTS.values()))[environment])
    shown = (~color).astype(
        np.int64
    )  # the channel: green stands second in the picture and first among the values

    def images(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        small = grey(rows)[:, ::2, ::2, 0]
        out = np.zeros((*small.shape, channels), dtype=np.uint8)
        np.put_along_axis(out, shown[rows][:, None, None, None], small[..., None], axis=3)
        return out

    values = {
        "label": ("0-4", "5-9"),
        "color": ("green", "red"),
        "environment": tuple(ENVIRONMENTS),
        "digit": tuple("0123456789"),
    }
    attributes = []
    for name, names in (values | {"split": ("train", "test")}).items():
        attributes.append(Attribute(name, names))
    codes = np.stack([label, color, environment, digit, environment == 2]).astype(np.uint8)
    table = AttributeTable(tuple(attributes), codes)
    return dataclasses.replace(
        training_rows,
        name="colored-mnist",
        table=table,
        read=images,
        input=InputSpec.image(14, 14, channels),
        fingerprint=fingerprint,
    )


def _usps_piece(path: Path) -> Piece:
    from sklearn.datasets import load_svmlight_file

    from crosswind.data.archives.checks import PACKED, damage, kind_of_file

    with (
        damage(path),
        PACKED["bzip2"](path) if kind_of_file(path) == "bzip2" else path.open("rb") as file,
    ):
        text = file.read(MOST_BYTES + 1)
    lines = text.count(b"\n")
    if len(text) > MOST_BYTES or lines > MOST_LINES:
        raise DataError(f"{path} unpacks to more than {MOST_BYTES:,} bytes or {MOST_LINES:,} lines")
    if not text.endswith(b"\n"):
        raise DataError(f"{path} is empty, or its last line is cut short")
    try:
        values, labels = load_svmlight_file(
            io.BytesIO(text), n_features=USPS_SIDE * USPS_SIDE, zero_based=False
        )
    except (ValueError, OverflowError, IndexError) as error:
        raise DataError(
            f"{path} is not a text of lines 'label index:value ...': {one_line(str(error), 200)}"
        ) from None
    grey = values.toarray()  # a value that a line leaves out is 0, in the middle of the greys
    digits = checked_labels(labels, path, len(grey), 1, 10) - 1
    outside = np.argwhere(~(np.abs(grey) <= 1))
    if len(outside):
        row, column = outside[0]
        problem = (
            f"{path}, row {row + 1} has {grey[row, column]:g} at index {column + 1}, and greys lie"
            " between -1 and 1"
        )
        raise DataError(problem)
    levels = np.rint((grey + 1) * 127.5).astype(np.uint8).reshape(-1, USPS_SIDE, USPS_SIDE, 1)
    return digits, lambda: levels
