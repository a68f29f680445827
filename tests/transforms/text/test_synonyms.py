"""Synonyms: the bundled lexicon, and WordNet's files, real ones and small ones made here."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from crosswind.core.errors import DataError
from crosswind.transforms.text import synonyms
from crosswind.transforms.text.synonyms import (
    STOP_WORDS,
    Bundled,
    Synonyms,
    WordNet,
    is_stop_word,
    provider,
)

DEBIAN = Path("/usr/share/wordnet")
LICENCE = (
    "  1 This is no WordNet, only of its form.  \n  2 Two spaces begin the lines of its"
    " licence.  \n"
)
POS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}

# Sets of synonyms, the more frequent first, and irregular forms with their base forms.
SETS: dict[str, list[list[str]]] = {
    "noun": [
        ["dog", "hound"],
        ["frank", "hot_dog", "dog"],
        ["ice_cream", "gelato"],
        ["man", "fellow"],
        ["Paris", "City_of_Light"],
    ],
    "verb": [["go", "travel"], ["chase", "dog"], ["use", "employ"]],
    "adj": [["galore(ip)", "abounding"], ["quick", "fast", "speedy"], ["good", "fine"]],
    "adv": [["quickly", "fast"], ["alone"]],
}
EXCEPTIONS: dict[str, dict[str, list[str]]] = {
    "verb": {"went": ["go"]},
    "adj": {"better": ["good", "well"]},
}


def write_wordnet(
    folder: Path,
    sets: Mapping[str, list[list[str]]] = SETS,
    exceptions: Mapping[str, Mapping[str, Sequence[str]]] = EXCEPTIONS,
) -> Path:
    """The twelve files, by the format's description (wndb, 5WN)."""
    folder.mkdir(exist_ok=True)
    for part, pos in POS.items():
        data, senses = LICENCE, dict[str, list[int]]()
        for group in sets[part]:
            offset = len(data.encode())
            words = " ".join(f"{word} 0" for word in group)
            data += (
                f"{offset:08d} 03 {pos} {len(group):02x} {words} 001 @ 00000001 n 0000 | a gloss;"
                ' "an example"  \n'
            )
            for word in group:
                senses.setdefault(word.partition("(")[0].lower(), []).append(offset)
        index = LICENCE
        for word in sorted(senses):
            found = senses[word]
            index += (
                f"{word} {pos} {len(found)} 2 @ ~ {len(found)} 1"
                f" {' '.join(f'{offset:08d}' for offset in found)}  \n"
            )
        (folder / f"data.{part}").write_text(data)
        (folder / f"index.{part}").write_text(index)
        forms = exceptions.get(part, {})
        (folder / f"{part}.exc").write_text(
            "".join(f"{form} {' '.join(base)}\n" for form, base in sorted(forms.items()))
        )
    return folder


@pytest.fixture
def small(tmp_path: Path) -> WordNet:
    return WordNet(write_wordnet(tmp_path / "wordnet"))


def test_the_lexicon_is_as_its_head_says() -> None:
    lines = [
        line
        for line in synonyms.LEXICON.read_text(encoding="ascii").splitlines()
        if not line.startswith("#")
    ]
    assert all(line.endswith(";") for line in lines)
    groups = [
        [word.strip() for word in group.split(",")]
        for line in lines
        for group in line[:-1].split(";")
    ]
    assert len(groups) >= 900
    assert len({frozenset(group) for group in groups}) == len(groups)
    assert [group for group in groups if len(group) < 2 or len(set(group)) < len(group)] == []
    words = {word for group in groups for word in group}
    assert len(words) >= 2300
    assert [word for word in words if not re.fullmatch(r"[a-z]+(?:[ -][a-z]+)*", word)] == []
    assert words & STOP_WORDS == set()


def test_the_bundled_lexicon_knows_all_groups_of_a_word() -> None:
    assert Bundled().of("film") == ("movie", "picture")
    assert Bundled().of("picture") == ("movie", "film", "image", "photo", "imagine", "envision")
    assert Bundled().of("qwerty") == Bundled().of("") == ()
    known = set(Bundled().of("movie"))
    assert all("movie" in Bundled().of(word) for word in known)


def test_the_wheel_will_hold_the_lexicon(root: Path) -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel")
    included = {
        file.distribution_path for file in wheel.WheelBuilder(str(root)).recurse_included_files()
    }
    assert len(included) >= 100
    assert "crosswind/transforms/text/lexicon.txt" in included


def test_a_setting_names_a_provider(small: WordNet) -> None:
    assert provider("bundled") == Bundled()
    assert provider("somewhere") == WordNet("somewhere") == WordNet(Path("somewhere"))
    assert provider(small) is small
    assert isinstance(small, Synonyms)
    assert isinstance(Bundled(), Synonyms)
    assert pickle.loads(pickle.dumps(small)).of("dog") == small.of("dog")


def test_the_synonyms_of_a_word_are_those_of_all_its_senses(small: WordNet) -> None:
    assert small.of("dog") == ("hound", "frank", "hot dog", "chase")
    assert small.of("hot dog") == ("frank", "dog")
    assert small.of("fast") == ("quick", "speedy", "quickly")
    assert small.of("ice cream") == ("gelato",)
    assert small.of("gelato") == ("ice cream",)
    assert small.of("galore") == ("abounding",)
    assert small.of("abounding") == ("galore",)
    assert small.of("paris") == ("city of light",)
    assert small.of("alone") == small.of("unknown") == small.of("") == ()


def test_an_inflected_form_has_the_synonyms_of_its_base_form(small: WordNet) -> None:
    for form, expected in {
        "hounds": ("dog",),
        "dogs": ("hound", "frank", "hot dog", "chase"),
        "men": ("fellow",),
        "went": ("travel",),
        "going": ("travel",),
        "goes": ("travel",),
        "used": ("employ",),
        "using": ("employ",),
        "uses": ("employ",),
        "employed": ("use",),
        "quickest": ("fast", "speedy"),
        "faster": ("quick", "speedy"),
        "better": ("fine",),
        "finer": ("good",),
    }.items():
        assert small.of(form) == expected, form
    assert small.of("bettered") == small.of("s") == small.of("ing") == ()


def test_whatever_a_token_is(small: WordNet) -> None:
    for word in ("é", "日本", "\ud800", "\x00", "a\nb", " ", "_", "0", "😀", "dog" * 1000):
        assert small.of(word) == ()


@pytest.mark.parametrize(
    "name",
    [f"{kind}.{part}" for kind in ("index", "data") for part in POS]
    + [f"{part}.exc" for part in POS],
)
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    folder = write_wordnet(tmp_path / "wordnet")
    (folder / name).unlink()
    with pytest.raises(
        DataError, match=rf"wordnet has no file {re.escape(name)}: .*package wordnet-base"
    ):
        WordNet(folder).of("dog")


def test_a_missing_folder_and_a_file_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere has no file index.noun"):
        WordNet(tmp_path / "nowhere").of("dog")
    (tmp_path / "file").write_text("")
    with pytest.raises(
        DataError, match=r"index.noun of WordNet in .*file cannot be read: Not a directory"
    ):
        WordNet(tmp_path / "file").of("dog")


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        (
            "index.noun",
            r"(?s).*",
            "",
            "index.noun .* is damaged or of another version: a line is not as it should be",
        ),
        ("index.noun", r"(?s).*", LICENCE, "index.noun .* is damaged"),
        ("index.verb", r"(?s).*", "PK-zipped\n", "index.verb .* is damaged"),
        (
            "index.noun",
            r"dog n 2",
            "dog n 3",
            "index.noun .* the line of 'dog' is not as it should be",
        ),
        ("index.noun", r"dog n 2", "dog n x", "the line of 'dog' is not as it should be"),
        ("index.noun", r"dog n 2 .*", "dog", "index.noun .* is damaged"),
        ("index.noun", r"dog n 2 .*", "dog n", "the line of 'dog' is not as it should be"),
        ("index.noun", r"dog n 2 2", "dog n 0 2", "the line of 'dog' is not as it should be"),
        (
            "data.noun",
            r"(?s)  2 Two.*",
            "",
            "data.noun .* there is no set of synonyms at byte .*, where index.noun points",
        ),
        ("data.noun", r"  1 ", "  1  ", "there is no set of synonyms at byte"),
        ("data.noun", r"\d{8}( 03 n 02 dog)", r"00000001\1", "there is no set of synonyms at byte"),
        ("data.noun", r" n 02 dog", " n zz dog", "there is no set of synonyms at byte"),
        ("data.noun", r" n 02 dog", " n 00 dog", "there is no set of synonyms at byte"),
        ("data.noun", r"(?s)hound.*", "", "there is no set of synonyms at byte"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, old: str, new: str, words: str) -> None:
    folder = write_wordnet(tmp_path / "wordnet")
    before = (folder / name).read_text()
    after = re.sub(old, new, before, count=1)
    assert after != before
    (folder / name).write_text(after)
    with pytest.raises(DataError, match=words) as caught:
        WordNet(folder).of("dog")
    assert "\n" not in str(caught.value)


def is_clean(synonym: str) -> bool:
    """Whether it is in lower case, not blank and without marks of the files."""
    return synonym == synonym.lower() != "" and not re.search(r"[_(]|^\s*$", synonym)


needs_debian = pytest.mark.skipif(
    not (DEBIAN / "index.noun").is_file(),
    reason=f"{DEBIAN} is not there (Debian's package wordnet-base)",
)


@needs_debian
def test_words_and_forms_of_debian_have_their_synonyms() -> None:
    words = WordNet(DEBIAN)
    assert {"domestic dog", "canis familiaris", "hound"} <= set(words.of("dog"))
    assert words.of("dogs") == words.of("dog")
    assert words.of("galore") == ("abounding",)
    assert words.of("movie")[:3] == ("film", "picture", "moving picture")
    assert words.of("happy") == ("felicitous", "glad", "well-chosen")
    assert {"travel", "proceed"} <= set(words.of("went"))
    assert "good" not in words.of("better")
    assert "improve" in words.of("better")


@needs_debian
def test_synonyms_of_debian_are_clean_and_go_both_ways() -> None:
    words = WordNet(DEBIAN)
    lemmas = [
        line.split(" ")[0].replace("_", " ")
        for part in POS
        for line in (DEBIAN / f"index.{part}").read_text().splitlines()[29::60]
    ]
    assert len(lemmas) >= 2500
    synonyms = {lemma: words.of(lemma) for lemma in lemmas}
    assert sum(map(bool, synonyms.values())) / len(synonyms) > 0.5
    for lemma, of_lemma in synonyms.items():
        assert lemma not in of_lemma
        assert len(set(of_lemma)) == len(of_lemma)
        assert all(map(is_clean, of_lemma)), lemma
    # Synonymy goes both ways, but for words whose senses in the other's form are listed under a
    # base form.
    assert all(
        lemma in words.of(other) or other in words.of(lemma)
        for lemma in lemmas[::20]
        for other in words.of(lemma)
    )


def test_stop_words() -> None:
    assert len(STOP_WORDS) >= 250
    assert all(
        is_stop_word(word)
        for word in ("the", "The", "NOT", "n't", "don't", "Don\u2019t", "whoever")
    )
    assert not any(is_stop_word(word) for word in ("good", "film", "", ".", "théâtre"))
    assert {word for word in STOP_WORDS if word != word.lower() or " " in word} == set()
