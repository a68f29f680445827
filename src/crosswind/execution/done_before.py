"""Whether a study has nothing to do, seen without planning each of its runs.

A plan of 100,000 runs takes seconds, and its runs differ in little but their seeds. Their keys are a
function of the study and of the keys of one seed. So the plan of that seed tells whether a whole plan
is the one that ended before.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import sqlalchemy as sa

import crosswind
from crosswind import __version__
from crosswind.core.types import Job, digest
from crosswind.storage.database import drivers, meta, runs, studies
from crosswind.storage.store import DONE, Store
from crosswind.studies.plan import make_plan
from crosswind.studies.spec import Study

__all__ = ["ended_stamp", "fingerprint", "fingerprint_of_study"]


def fingerprint_of_study(study: Study, folder: Path | None) -> str:
    """`fingerprint` of a study that is not planned yet; `folder` as `make_plan` takes it."""
    one_seed = study.model_copy(update={"seeds": study.seed_list[:1]})
    return fingerprint(study, make_plan(one_seed, folder).jobs)


def fingerprint(study: Study, jobs: Iterable[Job]) -> str:
    """A digest of everything that decides the plan of a study, and of the code that makes it.

    `jobs`: those of its plan, of which the first seed is looked at.
    """
    first_seed = study.seed_list[0]
    keys = [job.key for job in jobs if job.labels["seed"] == first_seed]
    package = Path(crosswind.__file__).parent
    code = {
        str(path.relative_to(package)): path.stat().st_mtime_ns
        for path in sorted(package.rglob("*.py"))
    }
    written = study.model_dump(exclude_unset=True)
    return digest([__version__, code, study.model_dump(mode="json"), repr(written), keys])


def ended_stamp(store: Store, study: str) -> str | None:
    """A digest that changes with every plan, claim and result of the store. None where some job is
    not done, or a driver is known."""
    by_status = sa.select(
        runs.c.kind, runs.c.status, sa.func.count(), sa.func.max(runs.c.finished)
    ).group_by(runs.c.kind, runs.c.status)
    plan = sa.select(meta.c.value).where(meta.c.name == f"plan {study}")
    names = sa.select(studies.c.name, studies.c.created).order_by(studies.c.name)
    with store.transaction() as connection:
        counts = [
            list(row) for row in connection.execute(by_status.order_by(runs.c.kind, runs.c.status))
        ]
        n_drivers = connection.execute(sa.select(sa.func.count()).select_from(drivers)).scalar()
        plan_digest = connection.execute(plan).scalar()
        listed = [list(row) for row in connection.execute(names)]
    if n_drivers or plan_digest is None or any(status not in DONE for _, status, *_ in counts):
        return None
    return digest([store.scores_state(), counts, plan_digest, listed])
