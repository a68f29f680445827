"""Data sets of WILDS: tables of metadata beside folders of pictures, with splits in and out of the
training distribution."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crosswind.core.cards import card_of
from crosswind.core.errors import DataError
from crosswind.core.knobs import knob
from crosswind.core.registry import register
from crosswind.data.attributes import Attribute, AttributeTable
from crosswind.data.sources.base import Reading, positions
from crosswind.data.sources.packed_trees import PackedTrees, listed_files
from crosswind.data.sources.wilds_table import WildsTable
from crosswind.data.trees import Tree, in_order

Column = tuple[Attribute, NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True)
class Wilds(PackedTrees):
    """A data set of WILDS. A subclass names its table and reads it.

    The split `val` is out of the training distribution as `test` is, `id_val` (and `id_test`)
    within it:
    `official: {column: split, train: [train], validation: [val], test: [test]}`.
    """

    table: ClassVar[str] = "metadata.csv"
    wanted: ClassVar[tuple[str, ...]]
    """The columns of the table that are read."""

    def columns(self, rows: WildsTable) -> tuple[list[str], list[Column], NDArray[np.int64]]:
        """Of each row the picture below the table's folder, the attributes, of which `split` is the
        last, and the unit."""
        raise NotImplementedError

    def read(self, folder: Path) -> Reading:
        """The pictures in the order of the table."""
        tree = self.tree(folder)
        rows = WildsTable(tree, self._place(tree), self.wanted, self.card.get)
        names, columns, units = self.columns(rows)
        if not names:
            raise DataError(f"{rows.where} has no row of an official split")
        files = listed_files(tree, (rows.before + name for name in names), rows.where)
        attributes = tuple(attribute for attribute, _ in columns)
        table = AttributeTable(attributes, np.stack([codes for _, codes in columns]))
        split, codes = columns[-1]
        counts = np.bincount(codes, minlength=len(split)).tolist()
        dataset = self.of_files(table, tree, files, units)
        return Reading(dataset, dict(zip(split.values, counts, strict=True)))

    def _place(self, tree: Tree) -> str:
        table_files = [name for name in tree.sizes if name.rpartition("/")[2] == self.table]
        if len(table_files) != 1:
            problem = (
                f"{tree.name} has {'more than one' if table_files else 'no'} file {self.table}"
                f" ({self.card.get})"
            )
            raise DataError(problem)
        return table_files[0]


@register("camelyon17", kind="source")
@dataclass(frozen=True)
class Camelyon17(Wilds):
    """Camelyon17-WILDS: 455,954 patches of slides of lymph nodes from five hospitals, with or
    without tumour in their middle.

    Attributes: `tumor` (no, yes), `hospital` (0 to 4), `slide`, `patient`, `split`: train and
    id_val are of hospitals 0, 3 and 4, val (out of distribution) is of hospital 1, test of hospital
    2. A patient is a unit; id_val shares patients with train, so that a study that validates on it
    says `unit: none`. Layout: WILDS version 1.0, `metadata.csv` and `patches`.
    Reference: P. Bandi et al., From Detection of Individual Metastases to Classification of Lymph
    Node Status at the Patient Level: The CAMELYON17 Challenge, IEEE TMI 2018; P. W. Koh et al.,
    WILDS, ICML 2021.
    """

    size: int = knob(
        96, domain="[4, 512]", doc="side of the pictures in pixels; the original's is 96"
    )
    unit: str = knob("patient", domain="{patient, none}", doc="what is never in two roles")

    card = card_of("camelyon17")
    wanted = ("patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split")

    def columns(self, rows: WildsTable) -> tuple[list[str], list[Column], NDArray[np.int64]]:
        """See `Wilds.columns`."""
        center = np.array(rows.numbers("center", range(5)))
        split = np.array(rows.numbers("split", range(2)))
        names = self.card.attributes["split"]
        # The table tells training from validation rows; two hospitals are apart whatever it says.
        codes = np.select(
            [center == 1, center == 2, split == 1],
            [names.index(name) for name in ("val", "test", "id_val")],
            0,
        )
        patients = in_order(rows["patient"])
        slides = in_order(rows["slide"])
        patient = positions(rows["patient"], patients)
        tumor = np.array(rows.numbers("tumor", range(2)))
        slide = positions(rows["slide"], slides)
        columns = [
            (Attribute("tumor", ("no", "yes")), tumor),
            (Attribute("hospital", tuple("01234")), center),
            (Attribute("slide", tuple(slides)), slide),
            (Attribute("patient", tuple(patients)), patient),
            (Attribute("split", names), codes),
        ]
        files = [
            f"patches/patient_{patient}_node_{node}/patch_patient_{patient}_node_{node}_x_{x}_y_{y}.png"
            for patient, node, x, y in zip(
                rows["patient"], rows["node"], rows["x_coord"], rows["y_coord"], strict=True
            )
        ]
        return files, columns, patient


@register("iwildcam", kind="source")
@dataclass(frozen=True)
class IWildCam(Wilds):
    """iWildCam2020-WILDS: 203,029 pictures of 182 species (or nothing) by 323 camera traps around
    the world.

    Attributes: `species` (the names in `categories.csv`, by its columns y and name, else the
    numbers 0 to 181), `location` (of the camera), `split`: id_val and id_test are of the cameras of
    train, val and test of others. A location is a unit; a study that validates on id_val says
    `unit: none`. Layout: WILDS version 2.0, `metadata.csv`, `categories.csv` and `train`.
    Reference: S. Beery, E. Cole, A. Gjoka, The iWildCam 2020 Competition Dataset, 2020; P. W. Koh
    et al., WILDS, ICML 2021.
    """

    unit: str = knob("location", domain="{location, none}", doc="what is never in two roles")

    card = card_of("iwildcam")
    wanted = ("split", "location_remapped", "y", "filename")

    def columns(self, rows: WildsTable) -> tuple[list[str], list[Column], NDArray[np.int64]]:
        """See `Wilds.columns`."""
        labels = rows.numbers("y")
        location_codes = rows.numbers("location_remapped")
        numbers = sorted(set(labels))
        locations = sorted(set(location_codes))
        species = _species(rows, numbers)
        location = positions(location_codes, locations)  # type: ignore[arg-type]
        split = self.card.attributes["split"]
        columns = [
            (Attribute("species", tuple(species)), positions(labels, numbers)),  # type: ignore[arg-type]
            (Attribute("location", tuple(map(str, locations))), location),
            (Attribute("split", split), rows.words("split", split)),
        ]
        return [f"train/{name}" for name in rows["filename"]], columns, location


@register("fmow", kind="source")
@dataclass(frozen=True)
class Fmow(Wilds):
    """FMoW-WILDS: 141,696 satellite pictures of 62 uses of land, by region and year.

    Attributes: `category`, `region` (of the country: Africa, Americas, Asia, Europe, Oceania,
    Other), `year` (2002 to 2017), `split`: train, id_val and id_test are from before 2013, val (out
    of distribution) from 2013 to 2015, test from 2016 on. Rows of no official split are left out.
    An area is a unit: pictures whose names (`airport_3_1_rgb.jpg`) differ by the last number alone;
    a name of another form is a unit of its own. Layout: WILDS version 1.1, `rgb_metadata.csv`,
    `country_code_mapping.csv` and `images`.
    Reference: G. Christie, N. Fendley, J. Wilson, R. Mukherjee, Functional Map of the World, CVPR
    2018; P. W. Koh et al., WILDS, ICML 2021.
    """

    size: int = knob(
        224, domain="[4, 512]", doc="side of the pictures in pixels; the original's is 224"
    )
    unit: str = knob("area", domain="{area, none}", doc="what is never in two roles")

    card = card_of("fmow")
    table = "rgb_metadata.csv"
    wanted = ("split", "img_filename", "category", "country_code", "timestamp")

    def columns(self, rows: WildsTable) -> tuple[list[str], list[Column], NDArray[np.int64]]:
        """See `Wilds.columns`."""
        split_cells = rows["split"]
        rows.words("split", ("train", "val", "test", "seq"))
        ages = []
        for time in rows["timestamp"]:
            ages.append("old" if time < "2013" else "middle" if time < "2016" else "new")
        official_of = [_OFFICIAL.get(pair) for pair in zip(split_cells, ages, strict=True)]
        rows_kept = [row for row, name in enumerate(official_of) if name is not None]
        countries = WildsTable(
            rows.tree, f"{rows.before}country_code_mapping.csv", ("alpha-3", "region")
        )
        region_of = dict(zip(countries["alpha-3"], countries["region"], strict=True))
        region = [region_of.get(code) or "Other" for code in rows["country_code"]]
        year = [time[:4] for time in rows["timestamp"]]
        split = [str(name) for name in official_of]
        cells = {"category": rows["category"], "region": region, "year": year, "split": split}
        columns = []
        for name, words in cells.items():
            known_values = self.card.attributes[name]
            columns.append(
                (
                    Attribute(name, known_values),
                    rows.words(name, known_values, [words[row] for row in rows_kept]),
                )
            )
        areas = [
            f"{split_cells[row]}/{_LAST.sub('', name)}"
            for row, name in enumerate(rows["img_filename"])
        ]
        _, area = np.unique([areas[row] for row in rows_kept], return_inverse=True)
        return [f"images/rgb_img_{row}.png" for row in rows_kept], columns, area.astype(np.int64)


_OFFICIAL = {
    ("train", "old"): "train",
    ("val", "old"): "id_val",
    ("test", "old"): "id_test",
    ("val", "middle"): "val",
    ("test", "new"): "test",
}
_LAST = re.compile(r"_\d+_(?:ms)?rgb\.\w+$")


def _species(rows: WildsTable, numbers: Sequence[int]) -> list[str]:
    """The name of each label; one that two labels have is followed by its number."""
    list_name = f"{rows.before}categories.csv"
    species_table = None
    if list_name in rows.tree.sizes:
        species_table = WildsTable(rows.tree, list_name, ("y", "name"))
    if species_table is None or not {"y", "name"} <= set(species_table.names):
        return list(map(str, numbers))
    name_of = dict(zip(species_table["y"], species_table["name"], strict=True))
    names = [name_of.get(str(number)) or str(number) for number in numbers]
    often = Counter(names)
    species: list[str] = []
    for name, number in zip(names, numbers, strict=True):
        species.append(f"{name} {number}" if often[name] > 1 else name)
    return species
