"""`crosswind status STORE`: how far the studies of a store are."""

from __future__ import annotations

from typing import Any

import typer

from crosswind.cli.options import DEFAULT_OUT, AsJson, StoreWord, StudyName, print_json

__all__ = ["status_command", "status_row"]


def status_command(where: StoreWord = DEFAULT_OUT, study: StudyName = None, as_json: AsJson = False) -> None:
    """Say how many runs of each study are done, running, waiting or failed, and why, and whose files are gone or of another size.

    Files are not read: crosswind check does that.
    """
    from crosswind.cli.check import damage_sentence
    from crosswind.core.errors import one_line
    from crosswind.studies.causes import CAUSES
    from crosswind.studies.store import Store

    with Store.open(where) as store:
        rows = [status_row(store, name) for name in ([study] if study is not None else store.study_names())]
    if as_json:
        print_json(rows)
        return
    if not rows:
        typer.echo(f"{where} holds no study yet")
    for row in rows:
        # What a store holds may steer a terminal.
        parts = [f"{row[name]} {name}" for name in ("finished", "diverged", "failed", "running", "pending") if row[name]]
        typer.echo(f"study {one_line(row['name'])}: {row['total']} runs: {', '.join(parts) or 'none'}")
        for failure in row["failures"]:
            words = f"{failure['runs']} failed: {one_line(failure['reason'])}"
            if failure["cause"]:
                stopped = f"{failure['runs']} stopped by the machine ({CAUSES.get(failure['cause'], 'system error')})"
                words = f"{stopped}: they run again at the next run ({one_line(failure['reason'])})"
            typer.echo(f"  {words}")
        if row["damaged"]:
            typer.echo(damage_sentence(row["name"], row["damaged"], where), err=True)


def status_row(store: Any, name: str) -> dict[str, Any]:
    """The state of one study as plain values: counts by status, failures by reason, and what `Store.damaged` sees."""
    reasons: dict[tuple[str, str | None], list[str]] = {}
    counts = store.counts(name)
    if counts["failed"]:
        for run in store.runs(name):
            if run["status"] == "failed":
                reasons.setdefault((run["reason"] or "no reason recorded", run["cause"]), []).append(run["key"])
    failures = [{"reason": reason, "cause": cause, "runs": len(keys), "keys": keys} for (reason, cause), keys in reasons.items()]
    return {"name": name, **counts, "failures": failures, "damaged": store.damaged(name)}
