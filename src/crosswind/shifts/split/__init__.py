"""From a plan to rows: the index of cells, the roles, the numbers and the rows of every set."""

from crosswind.shifts.split.index import cell_index, check_classes
from crosswind.shifts.split.make_split import SplitCounts, make_split, plan_counts
from crosswind.shifts.split.plan import LAWS, Roles, SetPlan, SplitPlan, default_sets, parse_sampler
from crosswind.shifts.split.rows import RowSet, Split

__all__ = [
    "LAWS",
    "Roles",
    "RowSet",
    "SetPlan",
    "Split",
    "SplitCounts",
    "SplitPlan",
    "cell_index",
    "check_classes",
    "default_sets",
    "make_split",
    "parse_sampler",
    "plan_counts",
]
