"""Tables of scores: which columns are classes, which are not, and what cannot be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from numpy.typing import NDArray

import crosswind as cw
from crosswind.core.errors import CrosswindError, DataError, InputError
from crosswind.unlabelled.score_columns import columns_of, is_score_name
from crosswind.unlabelled.score_tables import read_scored_tables

CLASSES = ("cat", "dog", "owl")
N = 120
Columns = dict[str, Any]


def scores(
    seed: int, kind: str = "logits", classes: Sequence[str] = CLASSES
) -> tuple[Columns, list[str]]:
    """Scores of rows of which four in five are right, and their labels."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, len(classes), N)
    logits = rng.normal(size=(N, len(classes)))
    logits[np.arange(N), np.where(rng.random(N) < 0.8, label, (label + 1) % len(classes))] += 5
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    values = {
        "logits": logits,
        "probabilities": probabilities,
        "logarithms": np.log(probabilities),
    }[kind]
    return {name: values[:, code] for code, name in enumerate(classes)}, [
        classes[code] for code in label
    ]


def written(
    tmp_path: Path,
    new: Columns,
    source_table: Columns,
    write: Callable[[Path, Columns], object] | None = None,
) -> tuple[str, str]:
    paths = tmp_path / "t.csv", tmp_path / "s.csv"
    for path, columns in zip(paths, (new, source_table), strict=True):
        if write is None:
            polars.DataFrame(columns).write_csv(path)
        else:
            write(path, columns)
    return str(paths[0]), str(paths[1])


def both(kind: str = "logits", classes: Sequence[str] = CLASSES) -> tuple[Columns, Columns, float]:
    """Columns of new rows and of labelled ones, and how many of these are right."""
    new, _ = scores(1, kind, classes)
    source_table, label = scores(2, kind, classes)
    answers = np.stack(list(source_table.values()), axis=1).argmax(axis=1)
    return (
        new,
        {**source_table, "label": label},
        float(np.mean([classes[code] == name for code, name in zip(answers, label, strict=True)])),
    )


def accuracy(
    paths: tuple[Any, Any], **options: Any
) -> tuple[tuple[str, ...], float, tuple[str, ...]]:
    read = read_scored_tables(*paths, options.pop("label", None), options.pop("classes", None))
    assert read.labelled is not None
    return read.classes, read.labelled.accuracy, read.notes


rng = np.random.default_rng(0)
OTHERS: dict[str, NDArray[Any]] = {
    "id": np.arange(N),
    "image_id": np.arange(N) + 5000,
    "index": np.arange(N),
    "Unnamed: 0": np.arange(N),
    "fold": np.arange(N) % 5,
    "split": np.arange(N) % 2,
    "confidence": rng.random(N),
    "max_prob": rng.random(N),
    "pred": np.arange(N) % 3,
    "prediction": np.arange(N) % 3,
    "y_pred": np.arange(N) % 3,
    "target": np.arange(N) % 3,
    "entropy": rng.random(N),
    "margin": rng.random(N) * 5,
    "loss": rng.random(N) * 3,
    "age": rng.random(N) * 90,
    "patient": np.arange(N) // 4,
    "timestamp": np.arange(N) + 1.7e9,
    "imageId": np.arange(N),
    "brightness": rng.random(N) * 255,
    "lesion_count": np.arange(N) % 7,
    "latitude": rng.random(N) + 48,
}


@pytest.mark.parametrize("kind", ["logits", "probabilities", "logarithms"])
@pytest.mark.parametrize("name", OTHERS)
def test_other_columns_are_left_out_by_name(tmp_path: Path, name: str, kind: str) -> None:
    new, source_table, right = both(kind)
    paths = written(tmp_path, {name: OTHERS[name], **new}, {**source_table, name: OTHERS[name]})
    assert accuracy(paths) == (
        CLASSES,
        right,
        (f"Column {name} is no class of the source: left out.",),
    )


def test_several_columns_are_left_out_and_only_those_of_numbers_named(tmp_path: Path) -> None:
    new, source_table, right = both()
    extra_columns = {"file": ["a.png"] * N, "fold": OTHERS["fold"], "id": OTHERS["id"]}
    notes = ("Columns fold, id are no class of the source: left out.",)
    assert accuracy(
        written(tmp_path, {**new, **extra_columns}, {**source_table, **extra_columns})
    ) == (
        CLASSES,
        right,
        notes,
    )
    estimates = cw.estimate(
        predictions=tmp_path / "t.csv", source=tmp_path / "s.csv", estimators=["atc-mc"]
    )
    assert notes[0] in str(estimates) and estimates.to_json()["notes"] == list(notes)


def test_a_column_without_a_name_is_left_out(tmp_path: Path) -> None:
    import pandas

    new, source_table, right = both()
    paths = written(
        tmp_path, new, source_table, lambda path, columns: pandas.DataFrame(columns).to_csv(path)
    )
    assert accuracy(paths) == (
        CLASSES,
        right,
        ("Column number 1 (without a name) is no class of the source: left out.",),
    )
    assert read_scored_tables(paths[0], None, None, None).classes == CLASSES


@pytest.mark.slow
def test_an_index_of_pandas_in_parquet_is_left_out(tmp_path: Path) -> None:
    new, source_table, right = both()
    for name, columns in (("t", new), ("s", source_table)):
        polars.DataFrame({**columns, "__index_level_0__": np.arange(N)}).write_parquet(
            tmp_path / f"{name}.parquet"
        )
    classes, share, notes = accuracy((str(tmp_path / "t.parquet"), str(tmp_path / "s.parquet")))
    assert (classes, share) == (CLASSES, right) and "__index_level_0__" in notes[0]


@pytest.mark.parametrize(
    "form",
    [
        "prob_{}",
        "p({})",
        "{}_score",
        "logit_{}",
        "P(y={})",
        "score.{}",
        "class_{}_probability",
        "y_pred_{}",
        "{} (%)",
        "PROB_{}",
    ],
)
def test_columns_named_by_the_class_with_something_beside_it(tmp_path: Path, form: str) -> None:
    new, source_table, right = both("probabilities")
    named = {name: form.format(name.title() if form == "PROB_{}" else name) for name in CLASSES}
    paths = written(
        tmp_path,
        {**{named[name]: column for name, column in new.items()}, "fold": OTHERS["fold"]},
        {named.get(name, name): column for name, column in source_table.items()}
        | {"fold": OTHERS["fold"]},
    )
    classes, share, notes = accuracy(paths)
    assert (classes, share) == (CLASSES, right)
    assert (
        notes[0].startswith(f"Columns of scores, with their classes: {named['cat']} (cat), ")
        and "fold" in notes[1]
    )


@pytest.mark.parametrize(
    ("labels", "columns"),
    [
        (("0", "1", "2"), ("0.0", "1.0", "2.0")),
        (("1.0", "2.0", "3.0"), ("1", "2", "3")),
        (("Cat", "DOG", "owl"), CLASSES),
        (("01", "02", "03"), ("1", "2", "3")),
        (("0", "1", "2"), ("class_0", "class_1", "class_2")),
        (("1", "2", "10"), ("p1", "p2", "p10")),
    ],
)
def test_classes_written_otherwise(
    tmp_path: Path, labels: tuple[str, ...], columns: tuple[str, ...]
) -> None:
    new, source_table, right = both()
    label = [labels[CLASSES.index(name)] for name in source_table.pop("label")]
    renamed = dict(zip(CLASSES, columns, strict=True))
    source_table = {renamed[name]: column for name, column in source_table.items()} | {
        "label": label
    }
    accuracy_found = accuracy(
        written(tmp_path, {renamed[name]: column for name, column in new.items()}, source_table)
    )
    assert (
        accuracy_found[:2] == (labels, right)
        and f"{columns[0]} ({labels[0]})" in accuracy_found[2][0]
    )


def test_logits_and_probabilities_beside_each_other(tmp_path: Path) -> None:
    """The first of two families that answer alike is read; two that answer otherwise are
    refused."""
    new, source_table, right = both("logits")
    other_table, other_known, _ = both("probabilities")
    label = source_table.pop("label")
    other_known.pop("label")
    twice = [
        {
            **{f"logit_{name}": values for name, values in logits_table.items()},
            **{f"prob_{name}": values for name, values in two.items()},
        }
        for logits_table, two in ((new, other_table), (source_table, other_known))
    ]
    classes, share, notes = accuracy(written(tmp_path, twice[0], {**twice[1], "label": label}))
    assert (
        (classes, share) == (CLASSES, right)
        and "logit_cat (cat)" in notes[0]
        and "prob_cat" in notes[1]
    )
    twice[0]["prob_cat"] = 1 - twice[0]["prob_cat"]
    with pytest.raises(
        DataError,
        match=(
            r"t\.csv has several columns of scores a class \(logit_cat, .* or prob_cat, .* leave"
            r" one of"
        ),
    ):
        accuracy(written(tmp_path, twice[0], {**twice[1], "label": label}))


@pytest.mark.parametrize("kind", ["probabilities", "logarithms"])
def test_a_class_that_never_occurs_in_the_source_is_told_by_sums(tmp_path: Path, kind: str) -> None:
    names = (*CLASSES, "fox")
    new, source_table, _ = both(kind, names)
    is_seen = np.array(source_table["label"]) != "fox"
    source_table = {name: np.array(column)[is_seen] for name, column in source_table.items()} | {
        "confidence": OTHERS["confidence"][: is_seen.sum()]
    }
    classes, _, notes = accuracy(
        written(tmp_path, {**new, "confidence": OTHERS["confidence"]}, source_table)
    )
    assert classes == names and notes == (
        (
            "No labelled row is of class fox; its column is taken for scores all the same. Name the"
            " classes if that is wrong."
        ),
        "Column confidence is no class of the source: left out.",
    )


def test_a_column_of_logits_that_may_be_a_class_is_refused_until_it_is_told(tmp_path: Path) -> None:
    names = (*CLASSES, "fox")
    new, source_table, _ = both("logits", names)
    is_seen = np.array(source_table["label"]) != "fox"
    paths = written(
        tmp_path, new, {name: np.array(column)[is_seen] for name, column in source_table.items()}
    )
    with pytest.raises(
        InputError,
        match=(
            "'fox' of t.csv may be a class that never occurs in the source, or none;"
            " cat,dog,owl,fox takes"
        ),
    ):
        accuracy(paths)
    assert accuracy(paths, classes=names)[0] == names
    assert accuracy(paths, classes=CLASSES)[0] == CLASSES
    affixed = [
        {f"z_{name}": column for name, column in columns.items()} for columns in (new, source_table)
    ]
    affixed[1] = {name: np.array(column)[is_seen] for name, column in affixed[1].items()}
    affixed[1]["label"] = affixed[1].pop("z_label")
    assert accuracy(written(tmp_path, *affixed))[0] == names, "what the columns share tells it"


@pytest.mark.parametrize(
    ("labelled_rows", "refused"),
    [(3, False), (4, False), (6, False), (10, False), (60, True), (200, True)],
)
def test_few_labelled_rows_may_lack_a_class_by_chance(
    tmp_path: Path, labelled_rows: int, refused: bool
) -> None:
    """A fox is the answer in about a quarter of the rows: of 10 rows all miss it with probability
    .06, of 60 with 3e-8."""
    names = (*CLASSES, "fox")
    new, source_table, _ = both("logits", names)
    labels = np.array(source_table["label"])
    first = [int(np.flatnonzero(labels == name)[0]) for name in CLASSES]
    rows = np.resize([*first, *np.flatnonzero(labels != "fox")], labelled_rows)
    paths = written(
        tmp_path, new, {name: np.array(column)[rows] for name, column in source_table.items()}
    )
    if refused:
        with pytest.raises(InputError, match="'fox' of t.csv may be a class that never occurs"):
            accuracy(paths)
        return
    classes, _, notes = accuracy(paths)
    assert classes == names and notes[0].startswith("No labelled row is of class fox")


def test_labels_that_no_column_is_named_by_are_refused_with_the_order_that_fits(
    tmp_path: Path,
) -> None:
    new, source_table, right = both()
    order = {"cat": "1", "dog": "0", "owl": "2"}
    numbered = {**source_table, "label": [order[name] for name in source_table["label"]]}
    paths = written(tmp_path, {**new, "id": OTHERS["id"]}, {**numbered, "id": OTHERS["id"]})
    pattern = (
        r"s\.csv has the label '\d', which is no class of the scores \(cat, dog, owl\) and 2 more"
        r" such labels; name the classes of "
    )
    with pytest.raises(
        DataError,
        match=pattern
        + r"these columns in their order by classes; 1,0,2 fits the labelled rows best,"
        rf" {right:.1%}",
    ):
        accuracy(paths)
    assert accuracy(paths, classes=["1", "0", "2"])[:2] == (("1", "0", "2"), right)
    with pytest.raises(
        InputError, match=r"in the order 0,1,2 and .* in the order 1,0,2.*; give the second"
    ):
        accuracy(paths, classes=["0", "1", "2"])
    numbers = {str(code): column for code, column in enumerate(new.values())}
    known_numbers = {str(code): source_table[name] for code, name in enumerate(CLASSES)} | {
        "label": source_table["label"]
    }
    paths = written(tmp_path, numbers, known_numbers)
    with pytest.raises(
        DataError,
        match=r"no class of the scores \(0, 1, 2\).*cat,dog,owl fits the labelled rows best",
    ):
        accuracy(paths)
    assert accuracy(paths, classes=CLASSES)[:2] == (CLASSES, right)


def test_a_class_without_a_column_is_named(tmp_path: Path) -> None:
    new, source_table, _ = both()
    source_table["label"][7] = "fox"
    with pytest.raises(
        DataError,
        match=r"s\.csv has the label 'fox', which is no class of the scores \(cat, dog, owl\)",
    ):
        accuracy(written(tmp_path, new, source_table))
    with pytest.raises(
        InputError,
        match="classes: name 'fox', and no column of numbers of both tables has that name",
    ):
        accuracy((str(tmp_path / "t.csv"), str(tmp_path / "s.csv")), classes=[*CLASSES, "fox"])


def test_both_tables_have_the_columns_of_every_class(tmp_path: Path) -> None:
    new, source_table, _ = both()
    new.pop("owl")
    with pytest.raises(DataError, match="owl"):
        accuracy(written(tmp_path, new, source_table))
    new, source_table, right = both()
    turned = {name: new[name] for name in reversed(CLASSES)}
    assert accuracy(written(tmp_path, turned, source_table))[:2] == (
        CLASSES[::-1],
        right,
    ), "their order may differ"


def test_columns_that_are_named_in_another_order_than_they_stand(tmp_path: Path) -> None:
    new, source_table, right = both()
    wrong = {"cat": "dog", "dog": "owl", "owl": "cat", "label": "label"}
    paths = written(
        tmp_path,
        {wrong[name]: column for name, column in new.items()},
        {wrong[key]: col for key, col in source_table.items()},
    )
    with pytest.raises(
        InputError,
        match=(
            r"in the order dog,owl,cat and .* in the order cat,dog,owl, the classes .*give the"
            r" second by"
        ),
    ):
        accuracy(paths)
    assert accuracy(paths, classes=CLASSES)[:2] == (CLASSES, right)
    insisted = accuracy(paths, classes=["dog", "owl", "cat"])
    assert insisted[1] < 0.3 and "the first was asked for" in insisted[2][0]
    with pytest.raises(InputError, match="seems to have its outputs in another order"):
        accuracy(paths, classes=["owl", "dog", "cat"])
    new, source_table, right = both()
    with pytest.raises(InputError, match="; leave them out"):
        accuracy(written(tmp_path, new, source_table), classes=["dog", "owl", "cat"])


def test_two_labelled_rows_do_not_bear_out_another_order(tmp_path: Path) -> None:
    new, source_table, _ = both()
    few = {name: column[:2] for name, column in source_table.items()}
    with pytest.raises(
        InputError,
        match=(
            "name the columns of t.csv in another order than they are named in, cat,dog,owl:"
            " .*leave them"
        ),
    ):
        accuracy(written(tmp_path, new, few), classes=["dog", "owl", "cat"])


def _semicolons(
    path: Path, columns: Columns, encoding: str = "utf-8", mark: str = ";", decimal: str = ","
) -> None:
    lines = [mark.join(columns)]
    for row in zip(*columns.values(), strict=True):
        lines.append(
            mark.join(
                cell if isinstance(cell, str) else f"{cell:.6f}".replace(".", decimal)
                for cell in row
            )
        )
    path.write_bytes(("\r\n".join(lines) + "\r\n").encode(encoding))


@pytest.mark.parametrize(
    ("encoding", "mark", "decimal"),
    [
        ("utf-8", ";", ","),
        ("utf-8-sig", ";", "."),
        ("utf-8-sig", ",", "."),
        ("utf-16", "\t", ","),
        ("utf-8", "\t", "."),
        ("utf-8", "|", ","),
    ],
)
def test_tables_as_programs_write_them(
    tmp_path: Path, encoding: str, mark: str, decimal: str
) -> None:
    new, source_table, right = both()
    paths = written(
        tmp_path,
        new,
        source_table,
        lambda path, columns: _semicolons(path, columns, encoding, mark, decimal),
    )
    assert accuracy(paths) == (CLASSES, pytest.approx(right), ())


def test_frames_and_mappings_are_tables_too() -> None:
    import pandas

    new, source_table, right = both()
    tables = [
        (new, source_table),
        (polars.DataFrame(new), polars.DataFrame(source_table)),
        (pandas.DataFrame(new), pandas.DataFrame(source_table)),
    ]
    for pair in tables:
        estimates = cw.estimate(predictions=pair[0], source=pair[1], estimators=["atc-mc"])
        assert (
            estimates.source_accuracy == pytest.approx(right)
            and estimates.data == "the predictions table"
        )


@pytest.mark.parametrize(
    ("label", "usual"),
    [("label", True), ("class", True), ("target", True), ("wahrheit", True), ("y", True)],
)
def test_the_column_of_labels(tmp_path: Path, label: str, usual: bool) -> None:
    new, source_table, right = both()
    source_table[label] = source_table.pop("label")
    assert accuracy(written(tmp_path, new, source_table))[1] == right
    source_table["note"] = ["a"] * N
    if label == "wahrheit":
        with pytest.raises(
            InputError, match=r"label: is needed: which column of s\.csv holds the labels"
        ):
            accuracy(written(tmp_path, new, source_table))
    assert accuracy(written(tmp_path, new, source_table), label=label)[1] == right


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cat,dog\n0.5,0.5\n0.9,0.3\n", "t.csv, row 2: probabilities sum to 1.2, not to 1"),
        ("cat,dog\n40,60\n90,10\n", "t.csv, row 1: no score is negative and each row sums to 100"),
        ("cat,dog\n0.5,\n0.5,0.5\n", "t.csv, row 1: a score is missing or not finite"),
        ("cat,dog\n0.5,inf\n0.5,0.5\n", "t.csv, row 1: a score is missing or not finite"),
        (
            "cat,fold\n0.5,1\n0.5,2\n",
            "t.csv needs a column of scores for each class, two at least, and has 1",
        ),
        ("cat,cat\n0.5,0.4\n", "names column 'cat' twice, and the two differ (row 1)"),
        ("cat,dog\n", "has no rows"),
    ],
)
def test_bad_tables_end_in_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(CrosswindError) as refused:
        read_scored_tables(str(tmp_path / "t.csv"), None, None, None)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_names_of_scores() -> None:
    assert all(
        is_score_name(name)
        for name in (
            "cat",
            "0",
            "10",
            "class_3",
            "prob_cat",
            "New York",
            "yes",
            "no!",
            "Löwe",
            "s1",
            "idle",
        )
    )
    assert not any(
        is_score_name(name)
        for name in (
            "id",
            "image_id",
            "fold",
            "Fold2",
            "confidence",
            "maxProb",
            "Unnamed: 0",
            "y_true",
        )
    )


def test_ways_to_find_columns() -> None:
    assert columns_of(["a", "b"], ["b", "x", "a"])[0].classes == ("b", "a")
    assert columns_of(["a", "b"], ["A", "a", "b"])[0].columns == ("a", "b")
    assert columns_of(["a", "b"], ["x", "y"]) == []
    assert [way.columns for way in columns_of(["a", "b"], ["a1", "b1", "a2", "b2"])] == [
        ("a1", "b1"),
        ("a2", "b2"),
    ]


def test_columns_that_are_taken_for_logits_are_named() -> None:
    """Of ages and heights they would be scores of classes called age and height."""
    note = "Columns Alter, Gewicht are no probabilities: they are read as logits of classes"
    numbers = {"Alter": [51.5, 40.2, 61.3], "Gewicht": [61.7, 82.8, 61.6]}
    notes = cw.estimate(predictions=numbers).notes
    assert any(sentence.startswith(note) for sentence in notes), notes
    shares = {"cat": [0.5, 0.25, 1.0], "dog": [0.5, 0.75, 0.0]}
    for scores in (
        shares,
        {name: list(np.log(np.maximum(values, 1e-9))) for name, values in shares.items()},
    ):
        assert not any("logits" in sentence for sentence in cw.estimate(predictions=scores).notes)


def test_numbers_that_are_called_by_no_class_are_refused() -> None:
    problem = r"needs a column of scores for each class, two at least; of its .* \(age, weight_id\)"
    with pytest.raises(DataError, match=problem):
        cw.estimate(predictions={"age": [51.5, 40.2], "weight_id": [1.5, 2.5]})


def test_commas_of_scores_are_read_as_those_of_any_table(tmp_path: Path) -> None:
    """Decimal commas are points; between thousands they are none; what nobody can tell is
    refused, and only where it is a score."""
    new, source_table, _ = both()
    plain = read_scored_tables(*written(tmp_path, new, source_table), None, None)

    def with_commas(columns: Columns) -> Columns:
        return {
            name: values
            if name == "label"
            else [f"{value:.17g}".replace(".", ",") for value in values]
            for name, values in columns.items()
        }

    commas = read_scored_tables(
        *written(tmp_path, with_commas(new), with_commas(source_table)), None, None
    )
    np.testing.assert_array_equal(commas.target.logits, plain.target.logits)

    doubtful = {**new, "visits": ["1,234"] * N}
    assert read_scored_tables(*written(tmp_path, doubtful, source_table), None, None).classes
    doubtful = {
        name: [f"{1 + row / 1000:.3f}".replace(".", ",") for row in range(1, N + 1)]
        for name in CLASSES
    }
    with pytest.raises(DataError, match=r"t\.csv, column 'cat': row 1: '1,001' may be 1001 or"):
        read_scored_tables(*written(tmp_path, doubtful, source_table), None, None)
    thousands = {name: [f"{1000 + row:,}.5" for row in range(N)] for name in CLASSES}
    large = read_scored_tables(*written(tmp_path, thousands, source_table), None, None)
    assert large.target.logits is not None
    np.testing.assert_array_equal(large.target.logits[:, 2], 1000.5 + np.arange(N))
