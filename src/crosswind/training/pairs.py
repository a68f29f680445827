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

    A row is seen on one of two sides at a visit: 1 in the clean environment, 0 in another. Its
    partner is seen on the other side.
    """

    def __init__(
        self, rows: RowSet, law: NDArray[np.float64] | None, ids: Ints, partners: Partners
    ) -> None:
        assert rows.environment is not None
        mass = np.ones((len(ids), 1)) if law is None else law
        step = 0 if law is None else rows.visit_step[1]
        environment_of_visit = rows.environment[:, None] + step * np.arange(mass.shape[1])
        self._is_clean = environment_of_visit == partners.clean  # [n, V]
        is_drawn = np.asarray(rows.weight) > 0
        mass = mass * is_drawn[:, None]
        self._mass = np.stack([mass * ~self._is_clean, mass * self._is_clean])  # [side, n, V]
        self._ids = ids
        self._label = rows.label
        self._by_class = partners.by == "class"
        if self._by_class:
            self._list_candidates()

    def _list_candidates(self) -> None:
        """List the rows that may be seen on each side by class: `_candidates` has the lists one
        after the other, `_start` and `_count` [side, class] where each begins and how long it is,
        `_position` [side, n] where a row stands in the list of its class, -1 where it is not in
        it."""
        n_classes = int(self._label.max()) + 1
        n_rows = len(self._label)
        can_be_seen = self._mass.sum(axis=2) > 0
        candidate_lists = [
            np.flatnonzero(can_be_seen[side] & (self._label == code))
            for side in (0, 1)
            for code in range(n_classes)
        ]
        self._candidates = np.concatenate(candidate_lists)
        counts = np.array([len(candidates) for candidates in candidate_lists])
        starts = np.cumsum(counts) - counts
        self._count = counts.reshape(2, n_classes)
        self._start = starts.reshape(2, n_classes)
        self._position = np.full((2, n_rows), -1)
        for number, candidates in enumerate(candidate_lists):
            side = number // n_classes
            self._position[side, candidates] = np.arange(len(candidates))

    def of(self, rows: Ints, values: Ints, visits: Ints, seed: int) -> tuple[Ints, Ints]:
        """The partners of rows that are seen under `values` at `visits`, and the partners' values:
        int64 [m] each."""
        # A row that has its own value has one column, whatever that value is.
        values = np.minimum(values, self._is_clean.shape[1] - 1)
        partner_side = np.where(self._is_clean[rows, values], 0, 1)
        partner = rows
        if self._by_class:
            partner = self._rows_of_class(rows, partner_side, visits, seed)
        law = self._mass[partner_side, partner]
        # Without a value on that side the partner is seen as the row is, and the pair not aligned.
        is_alone = law.sum(axis=1) == 0
        law[is_alone, values[is_alone]] = 1.0
        partner_values = visit_values(law, self._ids[rows], visits, seed_of(seed, "partner"))
        return partner, partner_values

    def _rows_of_class(self, rows: Ints, side: Ints, visits: Ints, seed: int) -> Ints:
        """For each row one of its class that may be seen on `side`, int64 [m]: never the row itself
        where there is another, and the row itself where there is none."""
        label = self._label[rows]
        position = self._position[side, rows]
        is_listed = position >= 0
        n_others = self._count[side, label] - is_listed
        keys = training_keys(self._ids[rows], visits, seed_of(seed, "partner row"))
        uniform = (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53  # in [0, 1)
        drawn = (uniform * n_others).astype(np.int64)
        # The row itself is passed over.
        drawn += is_listed & (drawn >= position)
        has_other = n_others > 0
        candidates = self._start[side, label] + drawn
        partners = rows.copy()
        partners[has_other] = self._candidates[candidates[has_other]]
        return partners
