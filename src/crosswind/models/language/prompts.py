"""Prompts: what a model is asked about an image or a text, and which class each answer stands for.
Imports no torch."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import InputError, shown, unknown
from crosswind.core.knobs import knob
from crosswind.models.given.outside import Outside
from crosswind.models.language.answers import Parser

PLACES = ("{labels}", "{list}", "{label}")
"""What a template may hold: all words as `a, b, or c`, or as `a, b, c`; one word, where a model
compares one text a class."""


@dataclass(frozen=True, eq=False)
class Question:
    """A question, the `words` that may be answered, and the class int [w] that each stands for."""

    text: str
    words: tuple[str, ...]
    classes: NDArray[np.int64]
    parser: Parser

    def read(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """The class of every answer int64 [n], -1 where it is none; see
        `crosswind.models.language.answers`."""
        word_numbers = (self.parser(text) for text in texts)
        return np.array(
            [
                -1 if word_number is None else self.classes[word_number]
                for word_number in word_numbers
            ],
            dtype=np.int64,
        )


@dataclass(frozen=True)
class Prompted(Outside):
    """A model that is asked in words."""

    prompt: str = knob(
        "jeon2025-general-1",
        doc="name of a prompt, or its text: {labels} is 'a, b, or c', {list} is 'a, b, c'",
    )
    answers: dict[str, str] = knob(
        {}, doc="answers that are asked for -> their classes; else the names of the classes"
    )
    names: dict[str, str] = knob(
        {},
        doc="classes -> how they are called in prompts and answers; else as in the data, _ a space",
    )

    def question(self, class_names: Sequence[str], field: str = "") -> Question:
        """The question asked of it. Raises `InputError`, see `question_of`."""
        return question_of(vars(self), class_names, field)


def question_of(knobs: Mapping[str, Any], class_names: Sequence[str], field: str = "") -> Question:
    """The question that the knobs `prompt`, `answers` and `names` make of these classes.

    Raises `InputError` on one of them: no such prompt, an answer for no class, a class without an
    answer, two words that are read alike.
    """
    inside = f"{field}." if field else ""
    template, answers_of_prompt = named_prompt(knobs["prompt"], f"{inside}prompt")
    answers = knobs["answers"]
    names = knobs["names"]
    if not answers and set(answers_of_prompt.values()) == set(class_names):
        answers = answers_of_prompt
    elif not answers and answers_of_prompt:
        answer_form = ", ".join(f"{word}: CLASS" for word in answers_of_prompt)
        raise InputError(
            f"{inside}answers",
            f"must say what an answer to this prompt stands for, as in {{{answer_form}}}",
            class_names,
        )
    _check_known(names, class_names, f"{inside}names")
    _check_known(answers.values(), class_names, f"{inside}answers")
    if answers:
        _check_all_answered(answers, class_names, f"{inside}answers")
    pairs = list(answers.items()) or [(spoken(name, names), name) for name in class_names]
    words = tuple(str(word) for word, _ in pairs)
    try:
        parser = Parser(words)
    except ValueError as error:
        raise InputError(f"{inside}{'answers' if answers else 'names'}", str(error)) from None
    codes = np.array([list(class_names).index(name) for _, name in pairs], dtype=np.int64)
    return Question(filled(template, words), words, codes, parser)


def _check_known(names: Iterable[str], class_names: Sequence[str], field: str) -> None:
    """Refuse the first name that is no class."""
    for name in names:
        if name not in class_names:
            raise unknown(field, "class", name, class_names)


def _check_all_answered(answers: Mapping[str, str], class_names: Sequence[str], field: str) -> None:
    """Refuse answers of which none stands for some class."""
    missing = [name for name in class_names if name not in answers.values()]
    if missing:
        raise InputError(field, f"no answer stands for the class {missing[0]!r}")


def named_prompt(prompt: str, field: str = "prompt") -> tuple[str, Mapping[str, str]]:
    """The template that a name stands for, or the text itself, and the answers to it that the name
    tells. Raises `InputError`."""
    named_prompts = prompts()
    if prompt in named_prompts:
        return named_prompts[prompt]["text"], named_prompts[prompt].get("answers", {})
    if not isinstance(prompt, str) or not prompt.strip():
        raise InputError(
            field, f"must be the name of a prompt or its text, not {shown(prompt)}", named_prompts
        )
    if " " not in prompt.strip() and not any(placeholder in prompt for placeholder in PLACES):
        raise unknown(
            field, "prompt", prompt, named_prompts
        )  # one word is a name with a slip, and no question
    return prompt, {}


@cache
def prompts() -> dict[str, dict[str, Any]]:
    """The named prompts: `text`, `answers` and the data sets that each is `tailored` to."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def spoken(name: str, names: Mapping[str, str]) -> str:
    """How a class is called in prompts and answers."""
    return str(names.get(name, name.replace("_", " ")))


def filled(template: str, words: Sequence[str]) -> str:
    """A template with the words in it."""
    return template.replace("{labels}", listed(words)).replace("{list}", ", ".join(words))


def listed(words: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b, or c`."""
    if len(words) < 3:
        return " or ".join(words)
    return f"{', '.join(words[:-1])}, or {words[-1]}"
