"""Names of columns of units are known however their words are joined."""

from __future__ import annotations

import pytest

from crosswind.data.column_names import (
    label_rank,
    name_words,
    names_attribute,
    names_outcome,
    names_rows,
    names_units,
    numbers_persons,
    numbers_units,
)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Patient ID", ("patient", "id")),
        ("patient-id", ("patient", "id")),
        ("PatientID", ("patient", "id")),
        ("patientId", ("patient", "id")),
        ("PatientIDs", ("patient", "ids")),
        ("NHSNumber", ("nhs", "number")),
        ("MRN", ("mrn",)),
        ("Größe (cm)", ("größe", "cm")),
        ("--", ()),
    ],
)
def test_words_of_a_name(name: str, words: tuple[str, ...]) -> None:
    assert name_words(name) == words


@pytest.mark.parametrize(
    "name",
    ["Patient ID", "PatientID", "patientId", "patient id", "pat_id", "pid", "MRN", "SubjectID"]
    + ["case_no", "customer_id", "Patienten-ID", "Patientennummer", "Proband", "patient_id"]
    + ["subject_id", "CUSTOMERID", "Participant", "user.id", "patient_number"]
    + ["ID Patient", "id_paciente", "Numéro de dossier", "患者番号", "speaker_id", "Kundennummer"],
)
def test_numbers_of_persons(name: str) -> None:
    assert numbers_persons(name) and numbers_units(name) and names_units(name)


@pytest.mark.parametrize(
    "name", ["site_id", "Lesion ID", "batch-id", "pairId", "group_id", "plot_nr"]
)
def test_numbers_of_other_units(name: str) -> None:
    assert numbers_units(name) and names_units(name) and not numbers_persons(name)


@pytest.mark.parametrize(
    "name", ["patient", "subject", "person", "User", "photographer", "author", "video", "pair"]
)
def test_words_for_units(name: str) -> None:
    assert names_units(name) and not numbers_units(name)


@pytest.mark.parametrize(
    "name",
    ["age", "patient_age", "Patient Gender", "covid", "grid", "rapid", "number", "no", "caseload"]
    + ["patients per day", "Patients No", "user_name", "humid", "", "--"]
    + ["num_students", "no_case", "dossier", "number", "idea"],
)
def test_names_of_other_things(name: str) -> None:
    assert not names_units(name)


def test_names_of_rows() -> None:
    assert all(map(names_rows, ["id", "imageId", "Image ID", "file_name", "uuid", "Patient ID"]))
    assert all(map(names_rows, ["column1", "Unnamed: 0", "...1", "level_0", "__index_level_0__"]))
    assert not any(
        map(
            names_rows,
            ["column2", "Unnamed: 3", "x1", "valid", "monkey", "Kids", "surname", "age", "-"],
        )
    )


def test_usual_names_of_labels_are_ranked_however_they_are_written() -> None:
    names = ["Label", "gold-label", "ClassName", "TARGET", "y", "Catégorie", "Диагноз", "诊断"]
    ranks = [label_rank(name) for name in names]
    assert None not in ranks and ranks == sorted(ranks, key=lambda rank: rank or 0)
    assert label_rank("e\u0301tiquette") == label_rank("étiquette") == label_rank("label") == 0
    assert label_rank("diagnose") == label_rank("diagnosis")


@pytest.mark.parametrize("name", ["Pclass", "passenger_class", "labeller", "site", "", "status"])
def test_other_names_are_none_of_labels(name: str) -> None:
    assert label_rank(name) is None and not names_outcome(name)


@pytest.mark.parametrize(
    "name",
    ["Survived", "Churn", "defaulted", "machine_failure", "isFraud", "Attrition"]
    + ["two_year_recid", "Loan_Status", "DEATH_EVENT", "HeartDisease", "quality", "target_label"],
)
def test_names_of_outcomes(name: str) -> None:
    assert names_outcome(name) and label_rank(name) is None


@pytest.mark.parametrize(
    "name", ["marital_status", "JobSatisfaction", "water_quality", "test_result"]
)
def test_names_that_end_as_some_outcomes_do(name: str) -> None:
    assert not names_outcome(name)


@pytest.mark.parametrize("name", ["Sex", "Hospital", "birth_year", "nativeCountry", "Пол", "医院"])
def test_names_of_who_where_and_when(name: str) -> None:
    assert names_attribute(name) and label_rank(name) is None and not names_outcome(name)


@pytest.mark.parametrize("name", ["kind", "verdict", "sexes_mixed", "", "agent"])
def test_names_of_no_attribute(name: str) -> None:
    assert not names_attribute(name)
