"""The action of a method beside plain training, declared so that each run can tell whether it took
place. Imports no torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from crosswind.core.knobs import Limit

__all__ = ["IDLE_SHARE", "MEASURED", "STILL", "Action", "action_of"]

IDLE_SHARE = 0.01
"""The share of the loss, and of the gradient, below which what a method adds is no more than noise.
"""
STILL = 0.5
"""Grey levels at the mean below which a changed picture is the picture again, as a screen shows it.
"""


@dataclass(frozen=True)
class Action:
    """How a run measures what its method adds to plain training. At least one of the fields is set.

    `idle`: knobs and the values at which the method's own term is gone. At a few steps of a run the
    loss and its gradient are taken twice, as the method is and at these values; the difference is
    what the method adds. `anew`: the state that belongs to it is that of a run which begins, since
    weights that the method has gathered are its action too. `views`: the method changes the
    pictures of a batch, and how far they move is measured. `tells`: what `Method.measured` gives,
    in words, where the method measures its action itself and doubts itself where there was none.
    `reason`: why nothing can be measured.
    """

    idle: Mapping[str, Any] = field(default_factory=dict)
    anew: bool = False
    views: bool = False
    tells: str = ""
    reason: str = ""

    def words(self) -> str:
        """How it is measured, in a phrase."""
        phrases = []
        if self.idle:
            phrases.append(f"the loss and its gradient beside those at {self.setting()}")
        if self.views:
            phrases.append("how far its views move pictures, in grey levels")
        if self.tells:
            phrases.append(self.tells)
        return "; ".join(phrases) or f"not measured: {self.reason}"

    def setting(self) -> str:
        """The setting without its own term: `weight = 0`."""
        settings = []
        for name, value in self.idle.items():
            settings.append(
                f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"
            )
        return " and ".join(settings)


MEASURED: Mapping[str, Action] = {
    "ada": Action(tells="how far the last copies were moved, in grey levels"),
    "beta-vae": Action(idle={"beta": 0.0}),
    "bn-adapt": Action(
        reason="it trains as erm does, and acts on test rows, by n / (N + n) of their statistics"
    ),
    "cyclegan": Action(
        tells=(
            "how often translations are taken for the environment that was meant, and for their"
            " class"
        )
    ),
    "jtt": Action(tells="the share of an epoch that is rows which stand there again"),
    "l2d": Action(
        idle={"alpha1": 0.0, "alpha2": 0.0, "mix": 0.0},
        tells="how far the last copies were moved, in grey levels",
    ),
    "lora": Action(reason="it has no term of its own: it is plain training of fewer weights"),
    "me-ada": Action(tells="how far the last copies were moved, in grey levels"),
    "occamnets": Action(idle={"suppression": 0.0, "gate_weight": 0.0, "gamma0": 0.0, "gamma": 0.0}),
    "ubnet": Action(idle={"weight": 0.0}),
    "pnd": Action(idle={"beta": 0.0}),
    "wise-ft": Action(
        reason=(
            "it trains nothing; alpha says how much of its weights the run has that it begins with"
        )
    ),
}
"""By name, where neither the limit of a method nor its class says it.

Here and not in the files of the methods: what is measured of a method is no part of what it does,
and the records of its effect and cost are of a file's every word.
"""


def action_of(
    name: str, declared: Action | None, limit: Limit | None, hooks: Collection[str]
) -> Action:
    """The action that a method declares, or that `MEASURED` has, or that follows from its limit and
    the hooks of `Method` that it overrides.

    A method that changes pictures is measured by them. One with a loss or an update of its own that
    has a limit is compared with itself there. What does not follow is not measured, and the reason
    says so.
    """
    if declared is not None or name in MEASURED:
        return declared or MEASURED[name]
    if "views" in hooks:
        return Action(views=True)
    if limit is not None and limit.knobs and {"loss", "update"} & set(hooks):
        return Action(idle=limit.knobs, anew=True)
    return Action(reason="its class declares no `action`" if hooks else "it is plain training")
