"""Names of columns: whether their values are labels, name rows, or number units such as patients,
however it is written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_PERSONS = (
    ("patient", "patienten", "pat", "subject", "subj", "person", "proband", "probanden", "user")
    + ("participant", "respondent", "volunteer", "donor", "individual", "animal", "customer")
    + ("client", "member", "student", "family", "household", "case", "fall", "speaker", "employee")
    + ("worker", "pupil", "kunde", "kunden", "versuchsperson", "schüler", "sujet", "sujeto")
    + ("paciente", "paziente", "soggetto", "dossier", "患者", "病人")
)
"""Who or what has several rows of a table, in several languages; in the plural a number would be how
many they are."""
_COLLECTIONS = (
    "site",
    "group",
    "lesion",
    "pair",
    "batch",
    "unit",
    "video",
    "author",
    "plot",
    "tree",
) + ("machine", "school", "session")
_NUMBERS = ("id", "ids", "no", "nr", "num", "number", "nummer", "code", "key", "identifier", "uid")
_NUMBERS_BEFORE = ("id", "nr", "num", "number", "numero", "número", "numéro")
"""The words for a number that may stand before what it numbers, as in ID Patient."""
_NUMBERS_BEHIND = (*_NUMBERS, "番号", "编号", "編號")
_WHOLE_NAMES = frozenset(("pid", "mrn", "proband", "participant"))
_BARE = frozenset(
    ("patient", "subject", "person", "user", "photographer", "author", "video", "unit", "pair")
)
"""Names of units without a word for their number, which are those of other things too."""
_ROW_NAMES = frozenset(
    ("id", "ids", "uuid", "guid", "index", "idx", "key", "name", "filename", "url")
)
"""Usual last words of names of columns whose values name the rows."""
_FIRST_WITHOUT_NAME = re.compile(
    r"column1|unnamed: ?0|\.\.\.1|level_0|_c0|__index_level_0__", re.IGNORECASE
)
"""Names that programs give to a first column without one, which most often is an index."""
_LABELS = (
    "label étiquette etiqueta rótulo etichetta метка 标签 標籤 ラベル 라벨",
    "gold_label true_label class_label ground_truth label_name",
    "class klasse classe clase класс 类 クラス 클래스 class_name",
    "target target_class zielvariable zielgröße 目标变量 目的変数",
    "y y_true",
    "sentiment",
    "stars",
    "rating",
    "overall",
    "category kategorie catégorie categoría categoria категория 类别 類別",
    "species espèce especie espécie вид",
    "diagnosis diagnose befund diagnostic diagnóstico diagnosi диагноз 诊断 診断",
    "answer",
    "outcome",
    "disease",
    "labels",
    "classes",
    "breed",
    "emotion",
)
"""Usual names of the column that is to be predicted, the surest first; those of a line are equally
sure."""
_RANK_OF_LABEL = {name: rank for rank, names in enumerate(_LABELS) for name in names.split()}
_OUTCOMES = frozenset(
    ("survived", "survival", "churn", "churned", "exited", "default", "defaulted", "fraud")
    + ("isfraud", "attrition", "readmitted", "readmission", "died", "death", "mortality")
    + ("deceased", "relapse", "recurrence", "recid", "recidivism", "spam", "toxic", "toxicity")
    + ("malignant", "malignancy", "purchased", "converted", "clicked", "subscribed", "approved")
    + ("approval", "failure", "verdict", "outcome", "target", "label", "disease", "diagnosis")
    + ("deny", "denied", "ergebnis", "результат", "结果")
)
"""Words for what happens in the end, with which the name of a column of labels often ends."""
_WHOLE_OUTCOMES = frozenset(
    ("income", "risk", "credit_risk", "loan_status", "vital_status", "death_event", "quality")
    + ("variety", "result", "decision", "prognosis", "résultat", "resultado", "risultato")
)
"""Such names whose last word alone says less."""
_ATTRIBUTES = frozenset(
    ("sex", "gender", "race", "ethnicity", "age", "country", "city", "state", "region")
    + ("district", "site", "center", "centre", "hospital", "clinic", "ward", "scanner")
    + ("camera", "device", "batch", "background", "lighting", "weather", "season", "year")
    + ("month", "weekday", "marital", "education", "occupation", "job", "workclass")
    + ("relationship", "smoker", "embarked", "contract", "location", "place", "view", "pose")
    + ("geschlecht", "ort", "stadt", "krankenhaus", "sexe", "ville", "hôpital", "sexo", "país")
    + ("ciudad", "пол", "город", "клиника", "больница", "性别", "国家", "城市", "医院")
)
"""Words for who, where, when and by what, with which the name of a column that may shift often ends."""
_INSIDE = re.compile(
    r"(?<=[a-z\u00df-\u00ff])(?=[A-Z])"  # patientId
    r"|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])"  # MRNCode, and IDs is one word
)


def name_words(name: str) -> tuple[str, ...]:
    """The words of a column's name in lower case, however they are joined: Patient ID, patient-id,
    patient_id and PatientID have the same ones."""
    parted = _INSIDE.sub("_", unicodedata.normalize("NFC", name))  # é may be written as two signs
    return tuple(word for word in re.split(r"[\W_]+", parted.lower()) if word)


def label_rank(name: str) -> int | None:
    """How sure it is by its name that a column is the label: 0 is the surest; None for a name that is
    no usual one."""
    return _RANK_OF_LABEL.get("_".join(name_words(name)))


def usual_labels(names: Iterable[str]) -> list[str]:
    """Those of `names` that are usual ones of labels, the surest first."""
    ranks = {name: rank for name in names if (rank := label_rank(name)) is not None}
    return sorted(ranks, key=ranks.__getitem__)


def names_outcome(name: str) -> bool:
    """Whether a column is called by what happens in the end, such as Churn, machine_failure or
    loan_status: a guess at the label where none has a usual name."""
    words = name_words(name)
    return bool(words) and (words[-1] in _OUTCOMES or "_".join(words) in _WHOLE_OUTCOMES)


def names_attribute(name: str) -> bool:
    """Whether a column is called by who, where, when or by what its rows are, such as Sex,
    hospital or birth_year: seldom what is to be predicted."""
    words = name_words(name)
    return bool(words) and words[-1] in _ATTRIBUTES


def names_rows(name: str) -> bool:
    """Whether a column is called as one whose values name the rows, if no two rows have one, or
    units, if some have."""
    if _FIRST_WITHOUT_NAME.fullmatch(name.strip()):
        return True
    words = name_words(name)
    return bool(words) and (words[-1] in _ROW_NAMES or numbers_units(name))


def numbers_persons(name: str) -> bool:
    """Whether a column is called as one of numbers of patients, customers and the like."""
    return _numbers_of(name, _PERSONS)


def numbers_units(name: str) -> bool:
    """Whether a column is called as one of numbers of units: persons, or sites, pairs, batches."""
    return _numbers_of(name, (*_PERSONS, *_COLLECTIONS))


def names_units(name: str) -> bool:
    """Whether a column is called as one whose equal values are of one thing: a number of units, or
    the word for one of them."""
    return numbers_units(name) or "_".join(name_words(name)) in _BARE


def _numbers_of(name: str, things: tuple[str, ...]) -> bool:
    words = name_words(name)
    joined = "".join(word for word in words if word not in ("de", "du", "del", "do"))
    if joined in _WHOLE_NAMES:
        return True
    # patientid and Patientennummer are joined without a sign of where.
    behind = {joined.removesuffix(number) for number in _NUMBERS_BEHIND}
    before = {joined.removeprefix(number) for number in _NUMBERS_BEFORE}
    return bool(((behind | before) - {joined}) & set(things))
