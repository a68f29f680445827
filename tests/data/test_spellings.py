"""Values that are one to a person: surely one and said, or perhaps one and refused until somebody
says which; and honest values."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from PIL import Image

import crosswind as cw
from crosswind.cli.main import _status
from crosswind.core.errors import InputError
from crosswind.data.dataset import AttributedDataset
from crosswind.data.spellings import shown_apart, spellings_of, spellings_of_series
from crosswind.studies.plan import plan_of

SURELY = {
    "no-break space": ("Black\u00a0cat", "Black cat", "Black cat"),
    "two spaces": ("Black  cat", "Black cat", "Black cat"),
    "wide space": ("Black\u3000cat", "Black cat", "Black cat"),
    "space behind": ("gull\u00a0", "gull", "gull"),
    "accents": ("cafe\u0301", "caf\u00e9", "caf\u00e9"),
    "two accents": ("o\u0302\u0323", "\u1ed9", "\u1ed9"),
    "hangul": ("\u1112\u1161\u11ab", "\ud55c", "\ud55c"),
    "angstrom": ("\u212b", "\u00c5", "\u00c5"),
    "zero width space": ("gu\u200bll", "gull", "gull"),
    "byte order mark": ("\ufeffgull", "gull", "gull"),
    "direction": ("\u200egull", "gull", "gull"),
    "soft hyphen": ("sea\u00adgull", "seagull", "seagull"),
    "word joiner": ("gull\u2060", "gull", "gull"),
    "idle joiner": ("gull\u200d", "gull", "gull"),
    "emoji style": ("\u2764\ufe0f", "\u2764", "\u2764"),
    "capitals of a truth": ("TRUE", "True", "true"),
}
PERHAPS = {
    "capitals": ("Red", "red"),
    "full width": ("\uff32\uff45\uff44", "Red"),
    "ligature": ("\ufb01ne", "fine"),
    "Cyrillic": ("\u0421at", "Cat"),
    "Greek": ("\u0391pe", "Ape"),
    "dash": ("x\u2013ray", "x-ray"),
    "apostrophe": ("O\u2019Neil", "O'Neil"),
    "underscore": ("living_room", "living room"),
    "sharp s": ("Stra\u00dfe", "STRASSE"),
    "point nought": ("1", "1.0"),
    "leading nought": ("01", "1"),
    "nought behind": ("0.50", "0.5"),
    "minus": ("\u22125", "-5"),
    "nought in a name": ("P01", "P1"),
    "quotes": ("'gull'", "gull"),
    "superscript": ("m\u00b2", "m2"),
    "Roman number": ("\u2163", "IV"),
    "a joiner in Persian": ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u062e"),
    "a joiner in emoji": ("\U0001f468\u200d\U0001f469", "\U0001f468\U0001f469"),
    "a truth and a number": ("true", "1"),
}
APART = {
    "grades": ["A+", "A", "A-", "B+"],
    "signs": ["-1", "1", "+"],
    "numbers": ["1", "10", "100", "0.1", "1.1", "11"],
    "accents": ["ano", "a\u00f1o", "resume", "r\u00e9sum\u00e9"],
    "names": ["P1", "P10", "P100", "P11"],
    "letters": list("ABCDEFGHIJKLMabcdefghijklm"),
    "scores": ["1:0", "10", "0:1"],
    "hashes": ["0010b5f0", "010b5f00", "10b5f000"],
    "classes of tumours": ["T1", "T2", "N0", "N1"],
    "versions": ["1.2.3", "1.2.30", "12.3"],
    "yes and no": ["yes", "no", "unknown"],
}


@pytest.mark.parametrize("kind", SURELY)
def test_what_is_surely_one_is_made_one_and_said(kind: str) -> None:
    spelling, other_spelling, name = SURELY[kind]
    spellings = spellings_of([spelling, other_spelling, "tern"])
    assert {spellings.names.get(text, text) for text in (spelling, other_spelling)} == {
        name
    } and not spellings.doubts
    assert (
        "are one value" in spellings.said("ink")
        and repr(name)[1:-1] in spellings.said("ink").encode().decode("unicode_escape")
        or spellings.said("ink")
    )


@pytest.mark.parametrize("kind", PERHAPS)
def test_what_may_be_one_is_found_among_few_and_many(kind: str) -> None:
    pair = PERHAPS[kind]
    assert spellings_of(list(pair)).doubts == (tuple(sorted(pair)),)
    if kind == "a truth and a number":  # only columns of truths alone have these
        return
    long_column = polars.Series([*pair, *(f"value {i} of many" for i in range(500))])
    assert spellings_of_series(long_column).doubts == (tuple(sorted(pair)),)


@pytest.mark.parametrize("kind", APART)
def test_honest_values_are_left_alone(kind: str) -> None:
    spellings = spellings_of(APART[kind])
    assert spellings.names == {} and spellings.doubts == ()


def test_a_value_that_is_written_in_one_way_keeps_it() -> None:
    assert spellings_of(["cafe\u0301", "gu\u200bll", "TRUE", "False"]).names == {}


def test_what_looks_alike_is_quoted_so_that_it_differs() -> None:
    assert shown_apart(["cafe\u0301", "caf\u00e9", "gull"]) == [
        "'cafe\\u0301'",
        "'caf\\xe9'",
        "'gull'",
    ]


@pytest.mark.parametrize("pattern", ["id{:07}", "{}", "IMG_{:05}.jpg", "{:x}"])
def test_a_hundred_thousand_names_are_no_alarm_and_cost_little(pattern: str) -> None:
    names = polars.Series([pattern.format(i * 7919) for i in range(100_000)])
    begun = time.process_time()
    spellings = spellings_of_series(names)
    assert spellings.doubts == () and spellings.names == {}
    assert time.process_time() - begun < 4


BIRDS, PLACES = ("gull", "tern"), ("sea", "land", "ice")
N = 120


def frame_of(spellings: tuple[str, str]) -> dict[str, list[str]]:
    """Rows in which the first place is written in two ways."""
    values = (*spellings, "land")
    return {
        "bird": [BIRDS[i % 2] for i in range(N)],
        "place": [values[i // 2 % 3] for i in range(N)],
    }


def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (N, 6, 6, 3), dtype=np.uint8)


def pictures(folder: Path, names: list[str]) -> list[str]:
    for name, picture in zip(names, pixels(), strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / name)
    return names


def of_table(folder: Path, frame: dict[str, list[str]]) -> AttributedDataset:
    polars.DataFrame({"path": pictures(folder, [f"{i}.png" for i in range(N)]), **frame}).write_csv(
        folder / "rows.csv"
    )
    return cw.load("table", path=str(folder / "rows.csv"), images=str(folder), size=6)


def of_copy(folder: Path, frame: dict[str, list[str]]) -> AttributedDataset:
    of_table(folder, frame)
    options: dict[str, Any] = {
        "path": str(folder / "rows.csv"),
        "images": str(folder),
        "size": 6,
        "root": str(folder / "root"),
    }
    cw.prepare("table", **options)
    return cw.load("table", **options)


def of_folder(folder: Path, frame: dict[str, list[str]]) -> AttributedDataset:
    rows = enumerate(zip(frame["place"], frame["bird"], strict=True))
    pictures(folder / "top", [f"{habitat}/{bird}/{i}.png" for i, (habitat, bird) in rows])
    return cw.load("image-folder", path=str(folder / "top"), levels=["place", "bird"], size=6)


def of_features(folder: Path, frame: dict[str, list[str]]) -> AttributedDataset:
    np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(N, 4)))
    polars.DataFrame(frame).write_parquet(folder / "rows.parquet")
    return cw.load("features", path=str(folder / "rows.parquet"), features=str(folder / "x.npy"))


def of_texts(folder: Path, frame: dict[str, list[str]]) -> AttributedDataset:
    polars.DataFrame({"text": [f"number {i} of them" for i in range(N)], **frame}).write_csv(
        folder / "rows.csv"
    )
    return cw.load("texts", path=str(folder / "rows.csv"))


def of_frame(folder: Path, frame: dict[str, list[str]]) -> AttributedDataset:
    return cw.from_frame(frame, pixels())


def of_torch(folder: Path, frame: dict[str, list[str]]) -> AttributedDataset:
    return cw.from_torch([(picture, 0) for picture in pixels()], frame)


def of_hugging_face(folder: Path, frame: dict[str, list[str]]) -> AttributedDataset:
    datasets = pytest.importorskip("datasets")
    names = list(dict.fromkeys(frame["place"]))
    cells = [
        {"path": str(folder / name), "bytes": None}
        for name in pictures(folder, [f"{i}.png" for i in range(N)])
    ]
    kinds = {"bird": datasets.Value("string"), "place": datasets.ClassLabel(names=names)}
    features = datasets.Features({"image": datasets.Image(), **kinds})
    datasets.Dataset.from_dict({"image": cells, **frame}, features=features).save_to_disk(
        str(folder / "saved")
    )
    return cw.load("huggingface", path=str(folder / "saved"), columns=["bird", "place"], size=6)


SOURCES = [of_table, of_copy, of_folder, of_features, of_texts, of_frame, of_torch, of_hugging_face]
Made = Callable[[Path, dict[str, list[str]]], AttributedDataset]


@pytest.mark.parametrize("make_dataset", SOURCES)
def test_every_source_makes_one_what_is_surely_one(make_dataset: Made, tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path, frame_of(("cafe\u0301", "caf\u00e9")))
    assert sorted(dataset.attribute("place").values) == ["caf\u00e9", "land"]
    split = cw.split(
        dataset,
        "bird",
        ["place"],
        shift=[{"type": "unseen-data", "attribute": "place", "unseen": ["cafe\u0301"]}],
    )
    assert not any(
        "caf" in name
        for name in np.array(split.train.group_names)[np.unique(split.train.group)].tolist()
    )
    if make_dataset is not of_copy:  # it was said when the copy was made
        assert any("are one value" in note for note in split.report["notes"])


@pytest.mark.parametrize("make_dataset", SOURCES)
def test_every_source_refuses_what_may_be_one_until_it_is_said(
    make_dataset: Made, tmp_path: Path
) -> None:
    dataset = make_dataset(tmp_path, frame_of(("Sea", "sea")))
    with pytest.raises(
        InputError,
        match=(
            r"'Sea' and 'sea' of 'place' may be one value: say same: \{place: \{\"Sea\":"
            r" \[\"sea\"\]\}\}"
        ),
    ):
        cw.split(dataset, "bird", ["place"])
    assert (
        len(cw.split(cw.with_distinct(dataset, ["place"]), "bird", ["place"]).train.group_names)
        == 6
    )
    joined = cw.with_same(dataset, {"place": {"sea": ["Sea"]}})
    assert (
        sorted(joined.attribute("place").values) == ["land", "sea"]
        and joined.fingerprint != dataset.fingerprint
    )
    assert (joined.table.column("place") == 0).sum() in (2 * N // 3, N // 3)
    assert len(cw.split(joined, "bird", ["place"]).train.group_names) == 4


def study_of(folder: Path, frame: dict[str, list[str]], **data: Any) -> dict[str, Any]:
    of_table(folder, frame)
    options = {
        "path": str(folder / "rows.csv"),
        "images": str(folder),
        "size": 6,
        **data.pop("options", {}),
    }
    data_set = {
        "source": "table",
        "options": options,
        "label": "bird",
        "attributes": ["place"],
        **data,
    }
    return {"data": {"own": data_set}, "shifts": {"none": []}, "models": ["mlp"]}


def test_a_study_says_which(tmp_path: Path) -> None:
    study = study_of(tmp_path, frame_of(("Sea", "sea")))
    with pytest.raises(
        InputError,
        match=(
            r"^data.own: 'Sea' and 'sea' of 'place' may be one value: say same: .* and distinct:"
            r" \[place\]"
        ),
    ):
        cw.plan(study)
    data_set = study["data"]["own"]
    apart = cw.plan({**study, "data": {"own": {**data_set, "distinct": ["place"]}}})
    joined = cw.plan({**study, "data": {"own": {**data_set, "same": {"place": {"sea": ["Sea"]}}}}})
    assert len(apart.draws[0].cells) == 6 and len(joined.draws[0].cells) == 4
    assert not {job.key for job in apart.jobs} & {job.key for job in joined.jobs}


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (
            {"same": {"place": {"sea": ["Land"]}}},
            r"data.own.same.place: unknown value of attribute 'place': 'Land'",
        ),
        (
            {"same": {"plaice": {"sea": ["Sea"]}}},
            r"data.own.same: unknown attribute of rows 'plaice'",
        ),
        (
            {"same": {"place": {"sea": ["Sea"], "land": ["Sea"]}}},
            r"'Sea' is named twice, as 'sea' and as 'land'",
        ),
        ({"distinct": ["plaice"]}, r"data.own.distinct: unknown attribute"),
        (
            {"keep": {"place": ["sea", "land"]}, "attributes": ["photographer"]},
            r"'Sea' and 'sea' of 'place' may be one value",
        ),
    ],
)
def test_what_a_study_cannot_say(entry: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    frame = {
        **frame_of(("Sea", "sea")),
        "photographer": [("Ann", "Bob")[i // 6 % 2] for i in range(N)],
    }
    with pytest.raises(InputError, match=sentence):
        cw.plan(study_of(tmp_path, frame, **entry))


def test_a_column_that_is_not_used_alarms_nobody(tmp_path: Path) -> None:
    frame = {
        **frame_of(("sea", "ice")),
        "remark": [("ok", "OK", "blurred")[i % 3] for i in range(N)],
    }
    assert cw.plan(study_of(tmp_path, frame)).notes == cw.plan(study_of(tmp_path, frame)).notes
    assert not any("ok" in text for text in (*cw.plan(study_of(tmp_path, frame)).notes,))


@pytest.mark.parametrize(
    ("spelling", "other_spelling"),
    [("P7\u00a0", "P7"), ("Zoe\u0308", "Zo\u00eb"), ("P\u200b7", "P7"), ("P 7", "P  7")],
)
def test_a_patient_written_in_two_ways_is_one_unit(spelling: str, other_spelling: str) -> None:
    people = [(spelling, other_spelling, "P1", "P2", "P3", "P4")[i % 6] for i in range(N)]
    dataset = cw.from_frame(
        {**frame_of(("sea", "ice")), "patient": people}, pixels(), unit="patient"
    )
    assert dataset.units is not None and len(np.unique(dataset.units)) == 5


@pytest.mark.parametrize(
    ("spelling", "other_spelling"),
    [("P01", "P1"), ("p7", "P7"), ("007", "7"), ("\uff30\uff17", "P7")],
)
def test_a_patient_who_may_be_one_is_refused_until_it_is_said(
    spelling: str, other_spelling: str
) -> None:
    people = [(spelling, other_spelling, "A", "B", "C", "D")[i // 4 % 6] for i in range(N)]
    dataset = cw.from_frame(
        {**frame_of(("sea", "ice")), "patient": people}, pixels(), unit="patient"
    )
    with pytest.raises(InputError, match=r"of 'patient' may be one value"):
        cw.split(dataset, "bird", ["place"])
    joined = cw.with_same(dataset, {"patient": {spelling: [other_spelling]}})
    assert joined.units is not None and len(np.unique(joined.units)) == 5
    cw.split(joined, "bird", ["place"])
    cw.split(cw.with_distinct(dataset, ["patient"]), "bird", ["place"])


CASES = [
    (("True", "TRUE"), ("False", "FALSE")),
    (("c\u00f4te", "co\u0302te"), ("mer", "mer")),
    (("sea", "s\u200bea"), ("land", "land")),
    (("Sea", "sea"), ("Land", "land")),
    (("1", "1.0"), ("0", "0.0")),
    (("living-room", "living room"), ("hall", "hall")),
]


@pytest.mark.slow
@pytest.mark.parametrize("spelled", CASES)
def test_a_proposed_study_takes_two_spellings_as_one_value(
    spelled: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = [spelled[i // 2 % 2][i // 4 % 2] for i in range(N)]
    of_table(tmp_path, {"bird": [BIRDS[i % 2] for i in range(N)], "place": values})
    assert _status(["init", str(tmp_path / "rows.csv")]) == 0
    errors = capsys.readouterr().err
    assert "are one value" in errors or "may be one value: the study takes them as one" in errors
    plan = plan_of(str(tmp_path / "rows.yaml"))
    assert {draw.shift: len(draw.cells) for draw in plan.draws} == {"none": 4, "SC": 4}


@pytest.mark.slow
def test_genotypes_stay_apart_in_a_proposed_study(tmp_path: Path) -> None:
    of_table(
        tmp_path,
        {
            "bird": [BIRDS[i % 2] for i in range(N)],
            "gene": [("AA", "Aa", "aa")[i // 2 % 3] for i in range(N)],
        },
    )
    assert _status(["init", str(tmp_path / "rows.csv")]) == 0
    assert "distinct: [gene]" in (tmp_path / "rows.yaml").read_text()


AUDITED = {**SURELY, "a number": ("1", "1.0", "1")}


@pytest.mark.parametrize("kind", AUDITED)
def test_an_audit_names_one_value_alike_in_both_tables(kind: str) -> None:
    spelling, other_spelling, _ = AUDITED[kind]
    sides = [
        {
            "bird": [BIRDS[i % 2] for i in range(N)],
            "place": [(text, "0")[i // 2 % 2] for i in range(N)],
        }
        for text in (spelling, other_spelling)
    ]
    audit_report = cw.audit(*sides, "bird")
    assert not audit_report.shifts and len(audit_report.column("place").values) == 2


def test_an_audit_leaves_out_what_may_be_one_and_says_so() -> None:
    sides = [
        {
            "bird": [BIRDS[i % 2] for i in range(N)],
            "place": [(text, "ice")[i // 2 % 2] for i in range(N)],
        }
        for text in ("Sea", "sea")
    ]
    lit_sides = [
        {**side, "light": [("day", "night")[i // 4 % 2] for i in range(N)]} for side in sides
    ]
    audit_report = cw.audit(*lit_sides, "bird")
    assert "place" not in [attribute.name for attribute in audit_report.attributes]
    assert any(
        name == "place" and "'Sea' and 'sea' may be one value" in why
        for name, why in audit_report.skipped
    )
    assert not cw.audit(*lit_sides, "bird", same=["place"]).shifts
    assert cw.audit(*lit_sides, "bird", distinct=["place"]).shifts
    with pytest.raises(InputError, match="label: 'bird': 'GULL' and 'gull' may be one value"):
        cw.audit(
            lit_sides[0],
            {**lit_sides[1], "bird": [("GULL", "tern")[i % 2] for i in range(N)]},
            "bird",
        )


def test_labels_of_two_sources_that_look_alike_are_one_class(tmp_path: Path) -> None:
    from crosswind.shifts.split import SetPlan, SplitPlan, default_sets, plan_counts

    frames = [
        {
            "bird": [(name, "tern")[i % 2] for i in range(N)],
            "place": frame_of(("sea", "ice"))["place"],
        }
        for name in ("\u00e9", "e\u0301")
    ]
    composed, decomposed = (
        cw.from_frame(frame, pixels()[::-step].copy(), name=str(step))
        for frame, step in zip(frames, (1, -1), strict=True)
    )
    plan = SplitPlan(
        "bird", ("place",), sets={**default_sets(), "far": SetPlan("test", source="-1")}
    )
    assert plan_counts({"1": composed, "-1": decomposed}, "1", plan).set_rows["test"] > 0


def test_an_estimate_refuses_labels_that_may_be_one_class(tmp_path: Path) -> None:
    from crosswind.unlabelled.target_rows import read_rows

    polars.DataFrame(
        {"text": [f"number {i} of them" for i in range(6)], "label": ["Good", "good", "bad"] * 2}
    ).write_csv(tmp_path / "rows.csv")
    with pytest.raises(
        InputError, match=r"source: 'Good' and 'good' of 'label' may be one class: write them alike"
    ):
        read_rows(str(tmp_path / "rows.csv"), "source", None, None, "label", None)
    apart = cw.with_distinct(cw.load("texts", path=str(tmp_path / "rows.csv")), ["label"])
    assert read_rows(apart, "source", None, None, "label", None).values == ("Good", "bad", "good")
