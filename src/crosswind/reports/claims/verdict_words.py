"""The verdicts on a claim, and the power for which it is said what could have been told."""

HOLDS, OPPOSITE, CANNOT_TELL, NOT_RUN = "holds", "the opposite holds", "cannot tell", "not run yet"
POWER = 0.8
"""For which the difference is told that a claim without a verdict could have shown."""
