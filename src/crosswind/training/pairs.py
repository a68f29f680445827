"""Which row, seen under which value, is the partner of a row at a visit: a function of the row's
id, the visit and the seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crosswind.core.seeds import seed_of
from crosswind.data.derive import training_keys, visit_values
from crosswind.methods.base import Partners

if TYPE_CHECKING:
    from crosswind.shifts.split import RowSet

Ints = NDArray[np.int64]


class PartnerRows:
    """The partners of training rows, see `Partners`.

    `law` float64 [n, V]: the probabilities of the values that rows are seen under at a visit; None
    where each has its own. `ids` int64 [n]. A row that the study's sampler never draws is nobody's
    partner.
    """

    def __init__(
        self, rows: RowSet, law: NDArray[np.float64] | None, ids: Ints, partners: Partners
    ) -> None:
        assert rows.environment is not None
        mass = np.ones((len(ids), 1)) if law is None else law
        step = 0 if law is None else rows.visit_step[1]
        environment_of_visit = rows.environment[:, None] + step * np.arange(mass.shape[1])
        self._clean = environment_of_visit == partners.clean  # [n, V]
        is_drawn = np.asarray(rows.weight) > 0
        mass = mass * is_drawn[:, None]
        # By side: 0 outside of the clean environment, 1 in it.
        self._mass = np.stack([mass * ~self._clean, mass * self._clean])
        self._ids, self._label, self._by = ids, rows.label, partners.by
        if self._by == "class":
            classes = int(rows.label.max()) + 1
            able = self._mass.sum(axis=2) > 0
            lists = [
                np.flatnonzero(able[side] & (rows.label == code))
                for side in (0, 1)
                for code in range(classes)
            ]
            self._candidates = np.concatenate(lists)
            counts = np.array([len(partner_list) for partner_list in lists])
            starts = np.cumsum(counts) - counts
            self._count, self._start = counts.reshape(2, classes), starts.reshape(2, classes)
            self._place = np.full((2, len(ids)), -1)  # of each row in the list of its class
            for number, partner_list in enumerate(lists):
                self._place[number // classes, partner_list] = np.arange(len(partner_list))

    def of(self, rows: Ints, values: Ints, visits: Ints, seed: int) -> tuple[Ints, Ints]:
        """The partners of rows that are seen under `values` at `visits`, and the partners' values:
        int64 [m] each."""
        values = np.minimum(
            values, self._clean.shape[1] - 1
        )  # each row has its own value, which is not looked at
        side = np.where(self._clean[rows, values], 0, 1)
        partner = self._others(rows, side, visits, seed) if self._by == "class" else rows
        law = self._mass[side, partner]
        alone = law.sum(axis=1) == 0
        law[alone, values[alone]] = 1.0
        return partner, visit_values(law, self._ids[rows], visits, seed_of(seed, "partner"))

    def _others(self, rows: Ints, side: Ints, visits: Ints, seed: int) -> Ints:
        """A row of the class that may be seen on the side, and is another one if there is another
        one."""
        label = self._label[rows]
        count, own_place = self._count[side, label], self._place[side, rows]
        n_others = count - (own_place >= 0)
        keys = training_keys(self._ids[rows], visits, seed_of(seed, "partner row"))
        uniform = (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53
        drawn = (uniform * n_others).astype(np.int64)
        drawn += (own_place >= 0) & (drawn >= own_place)
        chosen, partners = n_others > 0, rows.copy()
        positions = self._start[side, label] + drawn
        partners[chosen] = self._candidates[positions[chosen]]
        return partners
