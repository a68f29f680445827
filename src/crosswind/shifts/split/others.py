"""Roles of the data sets that a study only tests and validates on, which respect those of the data that train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from crosswind.data.dataset import AttributedDataset
from crosswind.shifts.split.deal import ROLES, Deal, Roles, deal_of
from crosswind.shifts.split.index import CellIndex
from crosswind.shifts.split.pictures import FREE, held, refused, roles_elsewhere, share

__all__ = ["Other", "deal_others"]

_TEST = ROLES.index("test")


@final
@dataclass(frozen=True)
class Other:
    """The deal of a data set that does not train.

    `left_out`: rows that its sets lack because their pictures have another role in a data set dealt before. `overlap`: test rows
    whose pictures train or validate there, where that is allowed. `changed`: whether its roles are others than on its own.
    """

    deal: Deal
    left_out: int = 0
    overlap: int = 0
    changed: bool = False


def deal_others(
    main: tuple[AttributedDataset, Deal],
    others: Mapping[str, tuple[AttributedDataset, CellIndex, frozenset[str]]],
    roles: Roles,
    split_seed: int,
    allowed: bool,
) -> dict[str, Other]:
    """Deal data sets one after another: a picture keeps the role that it has in `main`, or in one of `others` dealt before.

    `others`: data set, index of cells and the roles that sets read of it. With `allowed` each is dealt as if it were alone.
    Raises `InputError` where an official split makes test rows of pictures that train or validate.
    """
    found: dict[str, Other] = {}
    dealt = [main]
    waiting = list(others.items())
    while waiting:
        name, (dataset, index, reads) = waiting.pop(0)
        alone = deal_of(index, dataset, roles, split_seed, reads, allowed)
        if allowed:
            trains = np.logical_or.reduce([held(dataset, other, deal.roles) & 0b110 > 0 for other, deal in dealt])
            found[name] = Other(alone, overlap=int((trains & (alone.roles == _TEST)).sum()))
            dealt.append((dataset, alone))
            continue
        elsewhere = roles_elsewhere(dataset, ((other, deal.roles) for other, deal in dealt))
        if alone.official and "test" in reads:
            clash = (elsewhere != FREE) & (elsewhere != _TEST) & (alone.roles == _TEST)
            if clash.any():
                pictures = len(np.unique(alone.units[clash]))
                raise refused(dataset.name, "tests on", pictures, "that train or validate in another data set")
        # Pictures that a later data set shows too are dealt to all the roles that read either.
        wide = reads.union(*(more for _, (later, _, more) in waiting if not more <= reads and share(dataset, later)))
        other = Other(alone)
        if (elsewhere != FREE).any() or wide != reads:
            # What its own sets read has been judged where it was dealt alone.
            deal = Deal(index, dataset, roles, split_seed, wide, allowed=True, elsewhere=elsewhere)
            read = [place for place, role in enumerate(ROLES) if role in reads]
            before, now = (np.where(np.isin(each.roles, read), each.roles, len(ROLES)) for each in (alone, deal))
            if (before != now).any():
                other = Other(deal, left_out=int(((before < len(ROLES)) & (now == len(ROLES))).sum()), changed=True)
        found[name] = other
        dealt.append((dataset, other.deal))
    return found
