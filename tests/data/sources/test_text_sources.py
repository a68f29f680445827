"""The sources of texts, on files in their original layouts: packed and not, with their units, parts
and prepared copies."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crosswind as cw
from crosswind.core.errors import CrosswindError, DataError
from crosswind.core.registry import listing, load
from crosswind.core.types import PART_MARK
from crosswind.data.prepared import check, prepare
from crosswind.data.sources.civilcomments import IDENTITIES
from crosswind.data.sources.reviews import FILES

Files = dict[str, bytes]


def jsonl(*records: dict[str, Any]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def review(text: str | None, stars: float, product: str, **columns: Any) -> dict[str, Any]:
    record = {
        "overall": stars,
        "verified": True,
        "reviewerID": "A1",
        "asin": product,
        "unixReviewTime": 1 << 30,
        **columns,
    }
    return record if text is None else record | {"reviewText": text}


def nli(
    label: str, first: str, second: str, prompt: str | None = None, genre: str | None = None
) -> dict[str, Any]:
    record = {
        "annotator_labels": [label],
        "gold_label": label,
        "sentence1": first,
        "sentence2": second,
        "pairID": "1e",
    }
    return record | ({} if prompt is None else {"promptID": prompt, "genre": genre})


def pairs(*texts: str) -> list[str]:
    return [text.replace("|", PART_MARK) for text in texts]


HEAD = ["", "id", "comment_text", "split", "article_id", "toxicity", *IDENTITIES, "identity_any"]


def comment(
    number: int, text: str, split: str, article: int, toxicity: float, female: float, any_: float
) -> str:
    shares = ["0.0", str(female), *["0.0"] * 6, str(any_)]
    return ",".join(
        [
            str(number),
            str(9000 + number),
            '"' + text.replace('"', '""') + '"',
            split,
            str(article),
            str(toxicity),
            *shares,
        ]
    )


MNLI = "multinli_1.0/multinli_1.0_{}.jsonl"


@dataclass(frozen=True)
class Known:
    """`files` as unpacked; `archive` of all of them, where there is one; what is to be read."""

    files: Files
    archive: str
    texts: list[str]
    columns: dict[str, list[str]]
    parts: dict[str, int]
    units: list[int] | None = None
    settings: dict[str, Any] = field(default_factory=dict)


KNOWN = {
    "amazon-reviews": Known(
        {
            "Books_5.json": jsonl(
                review("A fine read.", 5.0, "B1"),
                review(None, 3.0, "B2"),
                review("Dull\nand long", 1.0, "B1"),
            ),
            "Toys_and_Games_5.json": jsonl(
                review("   ", 4.0, "T1"), review("Broke \u2013 at once", 2.0, "T2")
            ),
        },
        "",
        ["A fine read.", "Dull\nand long", "Broke \u2013 at once"],
        {"stars": ["5", "1", "2"], "category": ["books", "books", "toys"]},
        {"books": 2, "toys": 1},
        [0, 0, 1],
        {"categories": ["toys", "books"]},
    ),
    "drugs.com": Known(
        {
            "drugsComTrain_raw.tsv": (
                b"\tdrugName\tcondition\treview\trating\tdate\tusefulCount\n"
                b'1\tOne\tPain\t"""It didn&#039;t\nhelp, ""really"""""\t1.0\tMay 20, 2012\t27\n'
                b'2\tTwo\tPain\t"""All good"""\t9.0\tMay 21, 2012\t3\n'
            ),
            "drugsComTest_raw.tsv": (
                b'\tdrugName\tcondition\treview\trating\n3\tTwo\t\t"""So so"""\t5\n'
            ),
        },
        "drugsCom_raw.zip",
        ['It didn\'t\nhelp, "really"', "All good", "So so"],
        {"stars": ["1", "5", "3"], "rating": ["1", "9", "5"], "split": ["train", "train", "test"]},
        {"train": 2, "test": 1},
    ),
    "mnli": Known(
        {
            MNLI.format("train"): jsonl(
                nli("neutral", "He left.", "He was ill.", "7c", "fiction"),
                nli("entailment", "He left.", "He is gone.", "7c", "fiction"),
                nli("contradiction", "Yes.", "No.", "8c", "travel"),
            ),
            MNLI.format("dev_matched"): jsonl(
                nli("-", "a", "b", "9c", "slate"), nli("neutral", "c", "d", "10c", "slate")
            ),
            MNLI.format("dev_mismatched"): jsonl(nli("entailment", "e", "f", "11n", "oup")),
        },
        "multinli_1.0.zip",
        pairs("He left.|He was ill.", "He left.|He is gone.", "Yes.|No.", "c|d", "e|f"),
        {
            "relation": ["neutral", "entailment", "contradiction", "neutral", "entailment"],
            "genre": ["fiction", "fiction", "travel", "slate", "oup"],
            "split": ["train", "train", "train", "matched", "mismatched"],
        },
        {"train": 3, "matched": 1, "mismatched": 1},
        [2, 2, 3, 0, 1],  # of 7c, 7c, 8c, 10c, 11n
    ),
    "mednli": Known(
        {
            "mli_train_v1.jsonl": jsonl(
                nli("neutral", "Labs were normal.", "He is well."),
                nli("entailment", "Labs were normal.", "No fever."),
            ),
            "mli_dev_v1.jsonl": jsonl(nli("contradiction", "No pain.", "Much pain.")),
            "mli_test_v1.jsonl": jsonl(nli("neutral", "EKG done.", "All is fine.")),
        },
        "",
        pairs(
            "Labs were normal.|He is well.",
            "Labs were normal.|No fever.",
            "No pain.|Much pain.",
            "EKG done.|All is fine.",
        ),
        {
            "relation": ["neutral", "entailment", "contradiction", "neutral"],
            "split": ["train", "train", "dev", "test"],
        },
        {"train": 2, "dev": 1, "test": 1},
        [1, 1, 2, 0],
    ),
    "civilcomments": Known(
        {
            "civilcomments_v1.0/all_data_with_identities.csv": (
                "\n".join(
                    [
                        ",".join(HEAD),
                        comment(0, 'Well, "she" said\nso', "train", 26, 0.0, 1.0, 1.0),
                        comment(1, "Idiots!", "val", 30, 0.5, 0.49, 0.5),
                        comment(2, "Fine.", "test", 31, 0.49, 0.0, 0.0),
                        comment(3, "And so on", "train", 26, 0.9, 0.5, 0.6),
                    ]
                ).encode()
            ),
        },
        "civilcomments_v1.0.tar.gz",
        ['Well, "she" said\nso', "Idiots!", "Fine.", "And so on"],
        {
            "toxicity": ["no", "yes", "no", "yes"],
            "female": ["yes", "no", "no", "yes"],
            "identity_any": ["yes", "yes", "no", "yes"],
            "split": ["train", "val", "test", "train"],
        },
        {"train": 2, "val": 1, "test": 1},
        [0, 1, 2, 0],
    ),
}


def source(name: str, **settings: Any) -> Any:
    return load("sources", name)(**{**KNOWN[name].settings, **settings})


def written(folder: Path, files: Files) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def packed(name: str, folder: Path) -> Path:
    """The files as they are published."""
    published = KNOWN[name]
    folder.mkdir(exist_ok=True)
    if published.archive.endswith(".zip"):
        with zipfile.ZipFile(folder / published.archive, "w", zipfile.ZIP_DEFLATED) as archive:
            for file, data in published.files.items():
                archive.writestr(file, data)
    elif published.archive:
        with tarfile.open(folder / published.archive, "w:gz") as tar:
            for file, data in published.files.items():
                info = tarfile.TarInfo(file)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    elif name == "amazon-reviews":
        for file, data in published.files.items():
            (folder / f"{file}.gz").write_bytes(gzip.compress(data))
    else:
        written(folder, published.files)
    return folder


def test_there_are_five_and_each_is_known_here():
    cards = {
        entry.name
        for entry in listing("sources")
        if entry.card is not None and entry.card.shape.startswith("a text") and entry.card.files
    }
    assert cards == set(KNOWN) and len(KNOWN) == 5


@pytest.mark.parametrize("name", KNOWN)
def test_rows_are_those_of_the_files_packed_or_not_and_of_the_copy(name, tmp_path):
    published = KNOWN[name]
    for folder in (packed(name, tmp_path / "packed"), written(tmp_path / "plain", published.files)):
        text_source = source(name, root=str(tmp_path / f"root of {folder.name}"))
        reading = text_source.read(folder)
        assert (
            reading.parts == published.parts
            and reading.dataset.inputs(np.arange(len(published.texts))).tolist() == published.texts
        )
        copy = prepare(text_source, originals=str(folder), accept_totals=True).copy
        assert (copy.store, copy.image_shape, copy.parts) == ("text", None, published.parts)
        check(text_source)
        data = text_source.load()
        assert (
            str(data.input) == "texts"
            and data.inputs(np.arange(data.n_rows)).tolist() == published.texts
        )
        assert data.inputs(np.array([2, 0])).tolist() == [published.texts[2], published.texts[0]]
        for column, words in published.columns.items():
            values = data.attribute(column).values
            assert [values[code] for code in data.table.column(column)] == words
        units = (
            None if data.units is None else np.unique(data.units, return_inverse=True)[1].tolist()
        )
        assert units == published.units
        assert data.contents is not None and len(set(data.contents.tolist())) == len(
            published.texts
        )


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_missing_is_said_in_one_sentence_with_where_to_get_it(name, tmp_path):
    for folder in (
        written(tmp_path / "empty", {"a.txt": b""}),
        written(tmp_path / "cut", dict(list(KNOWN[name].files.items())[1:]) or {"b": b""}),
    ):
        text_source = source(name, root=str(tmp_path / "root"))
        with pytest.raises(DataError) as caught:
            prepare(text_source, originals=str(folder))
        sentence = str(caught.value)
        assert (
            "\n" not in sentence
            and text_source.card.get in sentence
            and "http" in sentence
            and any(word in sentence for word in ("GB", "MB"))
        )
    assert not (tmp_path / "root" / name).exists()


def test_published_numbers_of_rows_are_asked_for(tmp_path):
    for name, total in {
        "mnli": 412_349,
        "mednli": 14_049,
        "drugs.com": 215_063,
        "civilcomments": 448_000,
    }.items():
        assert sum(source(name).totals().values()) == total
        with pytest.raises(DataError, match="are published; --accept-totals"):
            prepare(
                source(name, root=str(tmp_path / "root")),
                originals=str(packed(name, tmp_path / name)),
            )


FAULTS = [
    (
        "amazon-reviews",
        "Books_5.json",
        b'"overall": 5.0',
        b'"overall": 6.0',
        "line 1 is no review: 'overall' is 6.0",
    ),
    (
        "amazon-reviews",
        "Books_5.json",
        b'{"overall": 5.0',
        b'"overall": 5.0',
        "line 1 is no JSON object in UTF-8",
    ),
    ("amazon-reviews", "Books_5.json", b"A fine", b"\xff\xfe", "line 1 is no JSON object in UTF-8"),
    (
        "drugs.com",
        "drugsComTrain_raw.tsv",
        b"\t9.0\t",
        b"\t11\t",
        "row 2: rating is '11', and not one of 1 to 10",
    ),
    ("drugs.com", "drugsComTrain_raw.tsv", b'"""All good"""', b'""""""', "row 2 has no review"),
    (
        "drugs.com",
        "drugsComTest_raw.tsv",
        b"review\t",
        b"text\t",
        "has no columns 'rating' and 'review'",
    ),
    ("drugs.com", "drugsComTest_raw.tsv", b"So so", b"So \xff", "is no table in UTF-8 with tabs"),
    (
        "mnli",
        MNLI.format("train"),
        b'"neutral"',
        b'"maybe"',
        "line 1: gold_label is 'maybe', which is not known",
    ),
    (
        "mnli",
        MNLI.format("train"),
        b'"fiction"',
        b'"poetry"',
        "line 1: genre is 'poetry', which is not known",
    ),
    (
        "mednli",
        "mli_test_v1.jsonl",
        b'"EKG done."',
        b'"  "',
        "line 1 has no text under 'sentence1'",
    ),
    ("mednli", "mli_dev_v1.jsonl", b"Much pain.", b"\\ud800", "holds half of a pair of surrogates"),
    (
        "civilcomments",
        "civilcomments_v1.0/all_data_with_identities.csv",
        b",30,0.5,",
        b",30,1.5,",
        "row 2: toxicity is '1.5'",
    ),
    (
        "civilcomments",
        "civilcomments_v1.0/all_data_with_identities.csv",
        b'"Fine."',
        b'" "',
        "row 3 has no comment",
    ),
    (
        "civilcomments",
        "civilcomments_v1.0/all_data_with_identities.csv",
        b",female,",
        b",women,",
        "has no column 'female'",
    ),
    (
        "civilcomments",
        "civilcomments_v1.0/all_data_with_identities.csv",
        b",val,",
        b",dev,",
        "split is 'dev', which is not known",
    ),
]


@pytest.mark.parametrize(("name", "file", "old", "new", "words"), FAULTS)
def test_a_fault_is_named_by_file_and_line_and_nothing_is_left(
    name, file, old, new, words, tmp_path
):
    data = KNOWN[name].files[file]
    assert old in data
    folder = written(tmp_path / "files", KNOWN[name].files | {file: data.replace(old, new)})
    with pytest.raises(CrosswindError) as caught:
        prepare(
            source(name, root=str(tmp_path / "root")), originals=str(folder), accept_totals=True
        )
    assert (
        words in str(caught.value)
        and "\n" not in str(caught.value)
        and Path(file).name in str(caught.value)
    )
    assert not list((tmp_path / "root").glob("[!.]*/prepared.json"))


def test_so_many_reviews_are_taken_by_chance_whatever_their_order(tmp_path):
    lines = [jsonl(review(f"Text {row}", row % 5 + 1, f"B{row}")) for row in range(200)]
    texts_by_order = []
    for name, order in (("one", lines), ("two", lines[::-1])):
        folder = written(tmp_path / name, {FILES["books"]: gzip.compress(b"".join(order))})
        reading = load("sources", "amazon-reviews")(categories=["books"], rows=50).read(folder)
        texts_by_order.append(reading.dataset.inputs(np.arange(50)).tolist())
    all_reviews = load("sources", "amazon-reviews")(categories=["books"], rows=None).read(
        tmp_path / "one"
    )
    assert (
        all_reviews.parts == {"books": 200}
        and texts_by_order[0] == texts_by_order[1][::-1]
        and len(set(texts_by_order[0])) == 50
    )
    rows = sorted(int(text.split()[1]) for text in texts_by_order[0])
    assert 60 < np.mean(rows) < 140 and rows != list(range(50))


def test_a_text_in_two_official_parts_is_told_of_as_a_text(tmp_path, capsys):
    rows = {"Train": range(60), "Test": range(50, 100)}
    files = {
        f"drugsCom{split_name}_raw.tsv": (
            "\n".join(
                ["\treview\trating", *(f"{i}\ttext {i}\t{i % 10 + 1}" for i in numbers)]
            ).encode()
        )
        for split_name, numbers in rows.items()
    }
    prepare(
        source("drugs.com", root=str(tmp_path / "root")),
        originals=str(written(tmp_path / "files", files)),
        accept_totals=True,
    )
    roles = {
        "official": {"column": "split", "train": ["train"], "test": ["test"]},
        "validation": 0.1,
    }
    drugs = {
        "source": "drugs.com",
        "options": {"root": str(tmp_path / "root")},
        "label": "stars",
        "attributes": [],
        "roles": roles,
    }
    study = {
        "data": {"drugs": drugs},
        "shifts": {"none": []},
        "models": ["bag-of-words"],
        "methods": ["erm"],
        "selection": ["last"],
    }
    with pytest.raises(
        CrosswindError,
        match="the official split of 'drugs.com' puts 10 texts in two parts; leave rows out",
    ):
        cw.plan(study)
    study["overlap"] = "allowed"
    assert any("10 texts are in two parts" in warning for warning in cw.plan(study).warnings)
