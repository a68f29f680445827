"""How the environments of a run are named in a study. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crosswind.core.errors import InputError, unknown

__all__ = ["aligned_codes"]


def aligned_codes(
    names: Sequence[str],
    rows: Sequence[float],
    clean: str | None,
    aligned: Sequence[str] | None,
    path: str = "method",
) -> tuple[int, list[int]]:
    """The code of the environment `clean` and those of the `aligned`, given as `noise` or as
    `corruption=noise`.

    None: the first environment with training `rows`, and all others with such. Raises `InputError`
    on `path.clean` and `path.aligned` for a name of no environment with training rows, and for one
    that is named where it must not be.
    """
    shown = {code: names[code] for code, count in enumerate(rows) if count > 0}

    def code_of(name: str, field: str, valid: Mapping[int, str]) -> int:
        for code, full in valid.items():
            if name in (
                full,
                ", ".join(
                    name_part.partition("=")[2] or name_part for name_part in full.split(", ")
                ),
            ):
                return code
        choices = list(valid.values())
        raise unknown(f"{path}.{field}", "environment", name, choices)

    if clean is None:
        first = next(iter(shown))
    else:
        first = code_of(clean, "clean", shown)
    other_names = {code: name for code, name in shown.items() if code != first}
    names_given = [] if isinstance(aligned, str) else aligned
    if names_given is None:
        codes = list(other_names)
    else:
        codes = [code_of(name, "aligned", other_names) for name in names_given]
    if not codes or len(set(codes)) < len(codes):
        raise InputError(
            f"{path}.aligned",
            f"must be a list of environments, each once, not {aligned!r}",
            list(other_names.values()),
        )
    return first, codes
