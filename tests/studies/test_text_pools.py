"""The studies ng2022/sentiment, extreme, ablations and nli: pools of text classifiers, each trained on one domain."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import polars
import pytest

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import CrosswindError
from crosswind.reports import estimate_sections
from crosswind.studies.plan import Plan, make_plan
from crosswind.studies.spec import load_study

SHOPS = ("books", "clothing", "home", "kindle", "movies", "pets", "sports", "tech", "tools", "toys")
DOMAINS = ("kitchen_housewares", "dvd", "music", "sports_outdoors", "electronics", "toys_games", "health_personal_care", "imdb")
GENRES = ("slate", "government", "fiction", "telephone", "travel", "oup", "nineeleven", "facetoface", "verbatim", "letters")
VERSIONS = ("original", "revised_premise", "revised_hypothesis")
WORDS = np.array("good great fine bad poor awful film book lamp shoe day box came was the it".split())


def table(path: Path, rows: int, **columns: tuple[object, ...]) -> None:
    """As many rows of every combination of values, each with a text of its own words and number."""
    grid = np.meshgrid(*(np.arange(len(values)) for values in columns.values()), np.arange(rows), indexing="ij")
    codes, random = [axis.ravel() for axis in grid], np.random.default_rng(0)
    words = [f"{' '.join(random.choice(WORDS, 8))} {number}" for number in range(len(codes[0]))]
    texts = {"text": words} if path.stem not in ("mnli", "cad_nli") else {"premise": words, "hypothesis": words[::-1]}
    told = {name: [values[code] for code in axis] for (name, values), axis in zip(columns.items(), codes, strict=False)}
    polars.DataFrame({**texts, **told}).write_parquet(path)


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `texts` in the working directory, with every table that the studies read, and the folders of the encoders."""
    folder = tmp_path / "texts"
    folder.mkdir()
    table(folder / "amazon.parquet", 20, stars=(1, 2, 3, 4, 5), domain=SHOPS)
    table(folder / "drugs.parquet", 20, stars=(1, 2, 3, 4, 5))
    table(folder / "mnli.parquet", 20, label=("entailment", "neutral", "contradiction"), genre=GENRES)
    table(folder / "fdu_mtl_12domains.parquet", 500, label=(0, 1), domain=(*DOMAINS, "video", "books"))
    table(folder / "cad_imdb.parquet", 130, label=(0, 1), version=("original", "revised"))
    table(folder / "cad_nli.parquet", 140, label=("entailment", "neutral", "contradiction"), version=VERSIONS, split=("train", "dev", "test"))
    monkeypatch.chdir(tmp_path)
    return folder
