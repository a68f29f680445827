"""Neighbourhood invariance: how far the answers for a row and for the rows made near it agree.

Reference: Ng, Hulkund, Cho & Ghassemi 2022, "Predicting Out-of-Domain Generalization with
Neighborhood Invariance", TMLR 2023, equations 3 and 4 and appendix B.3. The answers for a row and
its neighbours are V votes among k classes. Class j has m_j of them, the share f_j = m_j / V.

    largest     max_j f_j                             in [1/V, 1]       equations 3 and 4
    entropy     sum_j f_j log f_j, in nats            in [-log V, 0]    appendix B.3, table 8
    agreement   sum_j m_j (m_j - 1) / (V (V - 1))     in [0, 1]         ours: the share of pairs of votes that are equal

Votes drawn at random from k classes give an agreement of 1/k whatever V. Their largest share is
0.36 for 5 votes, 0.27 for 10 and 0.17 for 50 with ten classes, so that it compares only where V and
k are equal.

An answer that names no class, -1, agrees with no other, not even with another -1: a model that
gives no readable answer is not invariant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from crosswind.core.errors import DataError
from crosswind.core.knobs import Access, knob
from crosswind.core.registry import register
from crosswind.estimators.base import Answers, Floats, Measure


def invariances(votes: NDArray[np.int64], form: str = "largest") -> Floats:
    """The measure of each row, float64 [n], from its answers, int64 [n, V]; `form` as in the list
    above.

    Raises `DataError` for no answers, and for an agreement of fewer than two.
    """
    least = 2 if form == "agreement" else 1
    if votes.ndim != 2 or votes.shape[1] < least:
        raise DataError(
            f"the invariance of a row needs {least} or more answers, and they have shape"
            f" {votes.shape}"
        )
    count = votes.shape[1]
    # Sums over classes become means over votes: a class with m votes is met m times. The time does
    # not grow with k.
    equal = np.stack([(votes == votes[:, [i]]).sum(axis=1) for i in range(count)], axis=1)
    sizes = np.where(votes < 0, 1, equal)
    if form == "largest":
        return np.asarray(sizes.max(axis=1) / count)
    if form == "entropy":
        return np.asarray(np.log(sizes / count).mean(axis=1))
    return np.asarray((sizes - 1).mean(axis=1) / (count - 1))


@dataclass(frozen=True)
class Invariance(Measure):
    """Invariance in the neighbourhood that a subclass names in `access`: the mean over rows.
    Answers are all it reads."""

    form: str = knob(
        "largest",
        domain="{largest, entropy, agreement}",
        source="Ng et al. 2022, equation 3",
        doc=(
            "share of the commonest answer, negative entropy of the shares, or share of equal pairs"
        ),
    )
    no_pool_interval = (
        "of those measured fewer than 85% held the accuracy under strong shifts (22 of 26) and"
        " natural ones (6 of 8)"
    )
    original: bool = knob(
        True,
        source="Ng et al. 2022, section 3.2",
        doc="whether the row itself is among the answers",
    )
    neighbours: int = knob(
        10,
        domain="[1, 1000]",
        source="Ng et al. 2022, section 4.4",
        doc="changed copies of a row that a study asks for",
    )

    def measure(self, target: Answers) -> float:
        """The mean invariance of the rows."""
        votes = target.neighbours[self.access.neighbourhood]
        if votes.ndim != 2 or len(votes) != len(target):
            raise DataError(
                f"the answers for the neighbours of {len(target)} rows have shape {votes.shape}"
            )
        return float(invariances(votes if self.original else votes[:, 1:], self.form).mean())


@final
@register("ni", kind="estimator")
@dataclass(frozen=True)
class NI(Invariance):
    """Neighbourhood invariance by any registered transform: the share of a row and its neighbours
    that get the commonest answer.

    Measures: 1/n sum_i mu(x_i), with mu as `form` says; equations 3 and 4 by default.
    Neighbours: rows changed by `transform`, whose knobs stand beside it: `ni: {transform: rotate,
    degrees: 20}`.
    Assumes: the change keeps the label. It does the less, the more it raises the entropy of the
    outputs (the paper's section 5.4 and figure 5).
    Reads: answers, of the row and of ten neighbours; no probability. An answer of -1 agrees with
    none.
    Deviations: `agreement` is ours. Its value for answers at random is 1/k for any number of
    neighbours.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 5.4.
    """

    no_pool_interval = "how often its interval holds depends on the transform and was not measured"
    version = 1
    access = Access(
        scores="labels",
        neighbourhood="ni",
        handed=("transform", "settings"),
        pool=True,
        passes=11,
    )

    transform: str = knob(
        "", doc="the registered transform that makes neighbours; it must be named"
    )
    settings: dict[str, Any] = knob(
        {}, doc="values of the transform's knobs, which may stand beside `transform` instead"
    )


@final
@register("ni-flipcrop", kind="estimator")
@dataclass(frozen=True)
class NIFlipCrop(Invariance):
    """Neighbourhood invariance, flips and crops: the share of a row and its neighbours that get the
    commonest answer.

    Measures: 1/n sum_i mu(x_i), with mu as `form` says; equations 3 and 4 by default.
    Neighbours: a crop of 8% of the area or more, of aspect 3/4 to 4/3, flipped half the time.
    Assumes: the change keeps the label. It does not on digits (the paper's section 5.4).
    Reads: answers, of the row and of ten neighbours; no probability. An answer of -1 agrees with
    none.
    Deviations: `agreement` is ours. Its value for answers at random is 1/k for any number of
    neighbours.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 3.2.
    """

    version = 1
    access = Access(scores="labels", neighbourhood="ni-flipcrop", pool=True, passes=11)


@final
@register("ni-erase", kind="estimator")
@dataclass(frozen=True)
class NIErase(Invariance):
    """Neighbourhood invariance, erased patches: the share of a row and its neighbours that get the
    commonest answer.

    Measures: 1/n sum_i mu(x_i), with mu as `form` says; equations 3 and 4 by default.
    Neighbours: a patch of up to 33% of the area, of aspect 1/3 to 10/3, is erased.
    Assumes: the change keeps the label. It does not on digits of 28 pixels (the paper's section
    5.4).
    Reads: answers, of the row and of ten neighbours; no probability. An answer of -1 agrees with
    none.
    Deviations: `agreement` is ours. Its value for answers at random is 1/k for any number of
    neighbours.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 3.2.
    """

    version = 1
    access = Access(scores="labels", neighbourhood="ni-erase", pool=True, passes=11)


@final
@register("ni-randaugment", kind="estimator")
@dataclass(frozen=True)
class NIRandAugment(Invariance):
    """Neighbourhood invariance, RandAugment: the share of a row and its neighbours that get the
    commonest answer.

    Measures: 1/n sum_i mu(x_i), with mu as `form` says; equations 3 and 4 by default.
    Neighbours: one operation at a level up to 15 of 30, three for images of ImageNet's size.
    Assumes: the change keeps the label. The diagnosis tells the accuracy lost on labelled rows.
    Reads: answers, of the row and of ten neighbours; no probability. An answer of -1 agrees with
    none.
    Deviations: `agreement` is ours. Its value for answers at random is 1/k for any number of
    neighbours.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 3.2.
    """

    version = 1
    access = Access(scores="labels", neighbourhood="ni-randaugment", pool=True, passes=11)


@final
@register("ni-translate", kind="estimator")
@dataclass(frozen=True)
class NITranslate(Invariance):
    """Neighbourhood invariance, translation: the share of a row and its neighbours that get the
    commonest answer.

    Measures: 1/n sum_i mu(x_i), with mu as `form` says; equations 3 and 4 by default.
    Neighbours: moved by up to 10% of each side.
    Assumes: the change keeps the label. An object at the border may leave the image.
    Reads: answers, of the row and of ten neighbours; no probability. An answer of -1 agrees with
    none.
    Deviations: `agreement` is ours. Its value for answers at random is 1/k for any number of
    neighbours.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 3.2.
    """

    version = 1
    access = Access(scores="labels", neighbourhood="ni-translate", pool=True, passes=11)


@final
@register("ni-eda", kind="estimator")
@dataclass(frozen=True)
class NIEDA(Invariance):
    """Neighbourhood invariance, EDA: the share of a row and its neighbours that get the commonest
    answer.

    Measures: 1/n sum_i mu(x_i), with mu as `form` says; equations 3 and 4 by default.
    Neighbours: synonyms, insertions, swaps or deletions of words, one kind a neighbour, each at a
    rate of 10% (appendix A.5).
    Assumes: the change keeps the label. A "not" that goes turns it; the diagnosis tells the
    accuracy lost on labelled rows.
    Reads: answers, of the row and of ten neighbours; no probability. An answer of -1 agrees with
    none.
    Deviations: `agreement` is ours. Its value for answers at random is 1/k for any number of
    neighbours.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 3.2.
    """

    no_pool_interval = "how often its interval holds on texts was not measured"
    version = 1
    access = Access(scores="labels", neighbourhood="ni-eda", pool=True, passes=11)


@final
@register("ni-randomreplace", kind="estimator")
@dataclass(frozen=True)
class NIRandomReplace(Invariance):
    """Neighbourhood invariance, random replacement: the share of a row and its neighbours that get
    the commonest answer.

    Measures: 1/n sum_i mu(x_i), with mu as `form` says; equations 3 and 4 by default.
    Neighbours: 15% of the tokens become random words of a bundled list of everyday English
    (appendix A.5).
    Assumes: the change keeps the label. In a short text one word may carry it.
    Reads: answers, of the row and of ten neighbours; no probability. An answer of -1 agrees with
    none.
    Deviations: the list, where the paper draws from the word pieces of its networks. `agreement` is
    ours: its value for answers at random is 1/k for any number of neighbours.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 3.2.
    """

    rate: float = knob(
        0.15,
        domain="[0, 1]",
        source="Ng et al. 2022, appendix A.5",
        doc="the share of tokens that is replaced",
    )
    no_pool_interval = "how often its interval holds on texts was not measured"
    version = 1
    access = Access(
        scores="labels", neighbourhood="ni-randomreplace", handed=("rate",), pool=True, passes=11
    )


@final
@register("ni-ssmba", kind="estimator")
@dataclass(frozen=True)
class NISSMBA(Invariance):
    """Neighbourhood invariance, SSMBA: the share of a row and its neighbours that get the commonest
    answer.

    Measures: 1/n sum_i mu(x_i), with mu as `form` says; equations 3 and 4 by default.
    Neighbours: up to 15% of the tokens corrupted, of which 80% are masked, 10% random and 10%
    unmasked, and filled in by a masked language model (appendix A.5).
    Assumes: the change keeps the label. A masked "not" may come back as another word.
    Reads: answers, of the row and of ten neighbours; no probability. An answer of -1 agrees with
    none.
    Deviations: the share of a copy is drawn evenly from 0 to the maximum, which the paper does not
    say. `agreement` is ours: its value for answers at random is 1/k for any number of neighbours.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 3.2.
    """

    no_pool_interval = "how often its interval holds on texts was not measured"
    version = 1
    extra = "transformers"
    access = Access(
        scores="labels",
        neighbourhood="ni-ssmba",
        handed=("model", "revision", "rate"),
        pool=True,
        passes=11,
    )

    model: str = knob(
        "",
        doc=(
            "the masked language model: a folder with safetensors, or its name on the hub; it must"
            " be named"
        ),
    )
    revision: str = knob("", doc="of a model of the hub: its commit")
    rate: float = knob(
        0.15,
        domain="[0, 1]",
        source="Ng et al. 2022, appendix A.5",
        doc="the largest share of tokens corrupted",
    )


@final
@register("ni-backtranslation", kind="estimator")
@dataclass(frozen=True)
class NIBackTranslation(Invariance):
    """Neighbourhood invariance, back-translation: the share of a row and its neighbours that get
    the commonest answer.

    Measures: 1/n sum_i mu(x_i), with mu as `form` says; equations 3 and 4 by default.
    Neighbours: translated into another language and back, tokens drawn at a temperature of up to
    0.7 (appendix A.5).
    Assumes: the change keeps the label. Short or colloquial texts come back as others.
    Reads: answers, of the row and of ten neighbours; no probability. An answer of -1 agrees with
    none.
    Deviations: the temperature of a copy is drawn evenly from 0 to the maximum, which the paper
    does not say; nor does it name the models. `agreement` is ours: its value for answers at random
    is 1/k for any number of neighbours.
    Reference: Ng et al. 2022, "Predicting Out-of-Domain Generalization with Neighborhood
    Invariance", TMLR 2023, section 3.2.
    """

    no_pool_interval = "how often its interval holds on texts was not measured"
    version = 1
    extra = "transformers"
    access = Access(
        scores="labels",
        neighbourhood="ni-backtranslation",
        handed=("there", "back", "there_revision", "back_revision", "temperature"),
        pool=True,
        passes=11,
    )

    there: str = knob(
        "",
        doc=(
            "the model into the other language: a folder with safetensors, or its name on the hub;"
            " must be named"
        ),
    )
    back: str = knob("", doc="the model back; it must be named")
    there_revision: str = knob("", doc="of a model of the hub: its commit")
    back_revision: str = knob("", doc="of a model of the hub: its commit")
    temperature: float = knob(
        0.7, domain="[0, inf)", source="Ng et al. 2022, appendix A.5", doc="the highest temperature"
    )
