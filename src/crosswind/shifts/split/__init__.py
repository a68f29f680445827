"""From a plan to rows: the index of cells, the roles, the numbers and the rows of every set."""

from crosswind.shifts.split.deal import Deal, Pool, Roles, deal_of, parse_roles
from crosswind.shifts.split.index import CellIndex, cell_index
from crosswind.shifts.split.make import make_split, plan_counts
from crosswind.shifts.split.plan import LAWS, SetPlan, SplitPlan, default_sets, parse_sampler, parse_sets
from crosswind.shifts.split.rounding import controlled_rounding, margin_excess
from crosswind.shifts.split.rows import RowSet, Split

__all__ = [
    "LAWS",
    "CellIndex",
    "Deal",
    "Pool",
    "Roles",
    "RowSet",
    "SetPlan",
    "Split",
    "SplitPlan",
    "cell_index",
    "controlled_rounding",
    "deal_of",
    "default_sets",
    "make_split",
    "margin_excess",
    "parse_roles",
    "parse_sampler",
    "parse_sets",
    "plan_counts",
]
