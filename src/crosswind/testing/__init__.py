"""Checks of classes that others wrote: what every class of a kind must hold.

`check_method(MyMethod)` raises `CheckFailed` with a sentence for each check that does not hold;
`method_checks(MyMethod)` gives the same checks one by one, each with a name, for
`pytest.mark.parametrize`. The package's own methods, estimators, sources, models, shifts and
transforms are tested by them. Nothing here needs pytest.
"""

from crosswind.testing.checks import Check, CheckFailed
from crosswind.testing.estimators import check_estimator, estimator_checks
from crosswind.testing.methods import check_method, method_checks
from crosswind.testing.models import check_model, model_checks
from crosswind.testing.shifts import check_shift, shift_checks
from crosswind.testing.sources import check_source, source_checks
from crosswind.testing.transforms import check_transform, transform_checks

__all__ = [
    "Check",
    "CheckFailed",
    "check_estimator",
    "check_method",
    "check_model",
    "check_shift",
    "check_source",
    "check_transform",
    "estimator_checks",
    "method_checks",
    "model_checks",
    "shift_checks",
    "source_checks",
    "transform_checks",
]
