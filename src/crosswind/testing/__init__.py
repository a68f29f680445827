"""Checks of classes that others wrote: what every method, estimator, source and model must hold.

`check_method(MyMethod)` raises `CheckFailed` with a sentence for each check that does not hold;
`method_checks(MyMethod)` gives the same checks one by one, each with a name, for
`pytest.mark.parametrize`. The package's own methods, estimators, sources and models are tested by
them. Nothing here needs pytest.
"""

from crosswind.testing.checks import Check, CheckFailed
from crosswind.testing.estimators import check_estimator, estimator_checks
from crosswind.testing.methods import check_method, method_checks
from crosswind.testing.models import check_model, model_checks
from crosswind.testing.sources import check_source, source_checks

__all__ = [
    "Check",
    "CheckFailed",
    "check_estimator",
    "check_method",
    "check_model",
    "check_source",
    "estimator_checks",
    "method_checks",
    "model_checks",
    "source_checks",
]
