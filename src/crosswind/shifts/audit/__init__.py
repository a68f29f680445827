"""Which shifts lie between two given tables: correlations, drifts, unseen values, and which of them
follow from others."""

from crosswind.shifts.association import Interval
from crosswind.shifts.audit.findings import (
    FORMAT,
    KINDS,
    LEVEL,
    SIZES,
    STATUSES,
    AttributeAudit,
    Audit,
    Value,
    Verdict,
)
from crosswind.shifts.audit.verdicts import audit

__all__ = [
    "FORMAT",
    "KINDS",
    "LEVEL",
    "SIZES",
    "STATUSES",
    "AttributeAudit",
    "Audit",
    "Interval",
    "Value",
    "Verdict",
    "audit",
]
