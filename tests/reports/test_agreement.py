"""The page, the printed text and the store agree, number by number.

Every table of the page is read from its HTML and every cell of it is worked out again, by plain
loops over what `sqlite3` reads of the store and over the files of its runs. The text is cut into
its columns and compared with the page cell by cell.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from benchmarks.speed import report_page
from scipy import stats
from tests.cli.test_fuzz_stores import whole_store

from crosswind.cli.main import _status
from crosswind.reports import page as page_module
from crosswind.reports.gather import gather
from crosswind.reports.scores.tables import overview
from crosswind.storage.store import Store

T95 = {
    1: 12.7062047362,
    2: 4.3026527300,
    3: 3.1824463053,
    4: 2.7764451052,
}  # two-sided, by degrees of freedom (any table of t)
ORACLE = "best-target"
CHOOSING = {
    "best-id": "validation",
    "last": "validation",
    "best-ood": "ood-validation",
    "best-target": "target-validation",
}
Rows = list[list[str]]

# -- reading ---------------------------------------------------------------------------------------


class Tables(HTMLParser):
    """Every table of a page in order: its name, and its rows of cells with the columns first."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.named_tables: list[tuple[str, Rows]] = []
        self.inside = False
        self.is_picture = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            # A picture of comparisons is a table too, of the numbers that the findings have.
            self.is_picture = "data-table" not in dict(attrs)
            if not self.is_picture:
                self.named_tables.append((str(dict(attrs)["data-table"]), []))
        elif self.is_picture:
            return
        elif tag == "tr":
            self.named_tables[-1][1].append([])
        elif tag in ("th", "td"):
            self.named_tables[-1][1][-1].append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td") and not self.is_picture:
            self.inside = False
            self.named_tables[-1][1][-1][-1] = self.named_tables[-1][1][-1][-1].strip()

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.named_tables[-1][1][-1][-1] += data


def text_tables(text: str) -> list[Rows]:
    """The printed tables in order; the blocks of a wide one are put side by side again."""
    lines = text.split("\n")
    blocks: list[Rows] = []
    for line_number, line in enumerate(lines):
        if line_number and re.fullmatch(r"-+(  -+)*", line):
            spans = [(dashes.start(), dashes.end()) for dashes in re.finditer("-+", line)]
            block = [
                [header[start:end].strip() for start, end in spans]
                for header in [lines[line_number - 1]]
            ]
            for row in lines[line_number + 1 :]:
                if not row:
                    break
                block.append([row[start:end].strip() for start, end in spans])
            blocks.append(block)
    return blocks


def whole(blocks: list[Rows], columns: list[str]) -> Rows:
    """The next table of these columns, taken from the front of `blocks`."""
    table = blocks.pop(0)
    while len(table[0]) < len(columns):
        next_block = blocks.pop(0)
        keys = next(
            i for i, (a, b) in enumerate(zip(table[0], next_block[0], strict=False)) if a != b
        )
        assert [row[:keys] for row in next_block] == [row[:keys] for row in table]
        table = [row + extra[keys:] for row, extra in zip(table, next_block, strict=True)]
    return table


class Raw:
    """What a store of one study holds, as `sqlite3` gives it."""

    def __init__(self, out: Path) -> None:
        with closing(sqlite3.connect(out / "store.sqlite")) as connection:
            ((self.name, resolved),) = connection.execute("SELECT name, resolved FROM studies")
            self.resolved = json.loads(resolved)
            self.runs = [
                {
                    "key": key,
                    **json.loads(labels),
                    "status": status,
                    "reason": reason,
                    "seconds": seconds,
                }
                | {"cost": json.loads(cost or "{}"), "warnings": json.loads(warnings or "[]")}
                for key, labels, status, reason, seconds, cost, warnings in connection.execute(
                    "SELECT s.key, s.labels, r.status, r.reason, r.seconds, r.cost, r.warnings FROM"
                    " study_runs s JOIN runs r ON r.key = s.key WHERE r.kind = 'score' ORDER BY"
                    " s.position"
                )
            ]
            self.scores = {
                (key, rule, name): json.loads(metrics)
                for key, rule, name, metrics in connection.execute(
                    'SELECT key, rule, "set", metrics FROM scores'
                )
            }
            fits = connection.execute(
                "SELECT s.key, s.labels FROM study_runs s JOIN runs r ON r.key = s.key WHERE r.kind"
                " = 'fit' ORDER BY s.position"
            )
            left = [
                (json.loads(labels), out / "artifacts" / key[:2] / key / "exhibits.json")
                for key, labels in fits
            ]
            self.exhibits = [
                (labels, path)
                for labels, path in left
                if labels["seed"] == left[0][0]["seed"] and path.exists()
            ]
        # A run that was begun by nobody who lives is one that waits.
        for run in self.runs:
            run["status"] = {"running": "pending"}.get(run["status"], run["status"])
        self.out, self.reference = out, self.resolved["reference"]
        self.shifts = list(dict.fromkeys(run["shift"] for run in self.runs))
        methods = list(dict.fromkeys(run["method"] for run in self.runs))
        self.methods = [self.reference, *(name for name in methods if name != self.reference)]

    def chosen(self, shift: str, method: str, rule: str, name: str) -> dict[int, dict[str, Any]]:
        """By seed, the scores of the point with the highest accuracy on the rule's validation set;
        of equal ones the first."""
        best: dict[int, tuple[float, dict[str, Any]]] = {}
        for run in self.runs:
            if (run["shift"], run["method"]) == (shift, method) and (
                run["key"],
                rule,
                name,
            ) in self.scores:
                points = {
                    point_run["point"]
                    for point_run in self.runs
                    if (point_run["shift"], point_run["method"]) == (shift, method)
                }
                key = (run["key"], rule, CHOOSING[rule])
                worth = self.scores[key]["accuracy"] if len(points) > 1 else 0.0
                if run["seed"] not in best or worth > best[run["seed"]][0]:
                    best[run["seed"]] = (worth, self.scores[run["key"], rule, name])
        return {seed: metrics for seed, (_, metrics) in best.items()}

    def values(
        self, shift: str, method: str, rule: str, name: str, metric: str
    ) -> dict[int, float]:
        """One metric by seed."""
        return {
            seed: metrics[metric]
            for seed, metrics in self.chosen(shift, method, rule, name).items()
            if metric in metrics
        }

    def mark(self, shift: str, method: str, rule: str) -> str:
        """What stands behind a number of which a run told its reader to doubt it."""
        return (
            " †"
            if any(
                metrics.get("doubts")
                for metrics in self.chosen(shift, method, rule, "test").values()
            )
            else ""
        )

    def rules(self) -> list[str]:
        """The rules that there are scores of, the oracle last."""
        scored_rules = {rule for _, rule, _ in self.scores}
        return [
            rule for rule in ("best-id", "best-ood", "last", "best-target") if rule in scored_rules
        ]


# -- every cell again ------------------------------------------------------------------------------


def mean_and_half(values: list[float], sign: str = "", level: float = 0.95) -> str:
    if not values:
        return "-"
    text = f"{fmean(values):{sign}.3f}"
    if len(values) == 1:
        return text
    t = (
        T95[len(values) - 1]
        if level == 0.95
        else float(stats.t.ppf((1 + level) / 2, len(values) - 1))
    )
    return f"{text} ± {t * stdev(values) / math.sqrt(len(values)):.3f}"


def threshold(raw: Raw, rule: str) -> float:
    """The unadjusted p below which Holm's correction tells a comparison of this rule: each cost and
    effect, on both scores."""
    plain = next(
        (name for name, shift_parts in raw.resolved["shifts"].items() if shift_parts == []), None
    )
    plain = plain if raw.resolved["sets"]["test"]["law"] == "uniform" else None
    pairs = [
        ((shift, method), (shift, raw.reference))
        for shift in raw.shifts
        for method in raw.methods[1:]
    ]
    pairs += [
        ((shift, raw.reference), (plain, raw.reference))
        for shift in raw.shifts
        if plain and shift != plain
    ]
    p_values = []
    for treated_side, base_side in pairs:
        for metric in ("accuracy", "worst_group"):
            treated, base = (
                raw.values(*side, rule, "test", metric) for side in (treated_side, base_side)
            )
            values = [
                treated[seed] - base[seed]
                for seed in treated
                if seed in base and None not in (treated[seed], base[seed])
            ]
            if len(values) > 1 and stdev(values) > 1e-12:
                p_values.append(float(stats.ttest_1samp(values, 0).pvalue))
    significant = 0
    for smaller, p in enumerate(sorted(p_values)):
        if p * (len(p_values) - smaller) >= 0.05:
            break
        significant += 1
    return 0.05 / max(1, len(p_values) - max(significant, 1) + 1)


def by_shift(raw: Raw, rule: str, metric: str) -> Rows:
    points = {m: len({run["point"] for run in raw.runs if run["method"] == m}) for m in raw.methods}
    grid = max(points.values()) > 1
    return [
        ["method", *(["points"] if grid else []), *raw.shifts],
        *(
            [
                m,
                *([str(points[m])] if grid else []),
                *(
                    mean_and_half([*raw.values(s, m, rule, "test", metric).values()])
                    + raw.mark(s, m, rule)
                    for s in raw.shifts
                ),
            ]
            for m in raw.methods
        ),
    ]


def points_and_ends(values: list[float], level: float) -> str:
    """A difference as the page has it: percentage points with both ends of the interval."""
    if not values:
        return "-"
    text = f"{100 * fmean(values):+.1f}"
    if len(values) == 1:
        return text
    t = float(stats.t.ppf((1 + level) / 2, len(values) - 1))
    half = t * stdev(values) / math.sqrt(len(values))
    low, high = (100 * (fmean(values) + side * half) for side in (-1, 1))
    return f"{text} [{low:+.1f}, {high:+.1f}]"


def differences(raw: Raw, rule: str, on_page: bool) -> Rows:
    rows = [["method", *raw.shifts]]
    p_threshold = threshold(raw, rule)
    for method in raw.methods[1:]:
        row = [method]
        for shift in raw.shifts:
            of_method, of_reference = (
                raw.values(shift, name, rule, "test", "accuracy")
                for name in (method, raw.reference)
            )
            values = [
                of_method[seed] - of_reference[seed] for seed in of_method if seed in of_reference
            ]
            marked = False
            if len(values) > 1 and stdev(values) > 1e-12:
                marked = float(stats.ttest_1samp(values, 0).pvalue) < p_threshold
            size = (
                points_and_ends(values, 1 - p_threshold)
                if on_page
                else mean_and_half(values, "+", 1 - p_threshold)
            )
            row.append(size + (" *" if marked else "") + raw.mark(shift, method, rule))
        rows.append(row)
    return rows


def worst_groups(raw: Raw, rule: str) -> Rows:
    rows = [["shift", "method", "worst group", "group", "lowest in", "rows"]]
    for shift in raw.shifts:
        for method in raw.methods:
            metrics_by_seed = raw.chosen(shift, method, rule, "test")
            if not metrics_by_seed:
                rows.append([shift, method, "-", "-", "-", "-"])
                continue
            names = [metrics["worst_group_name"] for metrics in metrics_by_seed.values()]
            usual = max(dict.fromkeys(names), key=names.count)
            size = min(
                metrics["worst_group_n"]
                for metrics in metrics_by_seed.values()
                if metrics["worst_group_name"] == usual
            )
            value = mean_and_half(
                [metrics["worst_group"] for metrics in metrics_by_seed.values()]
            ) + raw.mark(shift, method, rule)
            rows.append(
                [shift, method, value, usual, f"{names.count(usual)} of {len(names)}", str(size)]
            )
    return rows


def every_seed(raw: Raw, rule: str) -> Rows:
    accuracies = {
        (s, m): raw.values(s, m, rule, "test", "accuracy") for s in raw.shifts for m in raw.methods
    }
    seeds = sorted({seed for values in accuracies.values() for seed in values})
    rows = [["shift", "method", *(f"seed {seed}" for seed in seeds)]]
    for (shift, method), values in accuracies.items():
        name = method + raw.mark(shift, method, rule)
        rows.append(
            [shift, name, *(f"{values[seed]:.3f}" if seed in values else "-" for seed in seeds)]
        )
    return rows


def ranks(raw: Raw, rule: str) -> Rows:
    blocks = []
    for shift in raw.shifts:
        accuracies = {m: raw.values(shift, m, rule, "test", "accuracy") for m in raw.methods}
        for seed in sorted({seed for values in accuracies.values() for seed in values}):
            blocks.append({m: values[seed] for m, values in accuracies.items() if seed in values})
    full = [block for block in blocks if len(block) == len(raw.methods)]
    got: dict[str, list[float]] = {m: [] for m in raw.methods}
    for block in full:
        order = sorted(block.values(), reverse=True)
        for method, value in block.items():
            got[method].append(
                fmean(
                    [
                        position + 1
                        for position, other_value in enumerate(order)
                        if other_value == value
                    ]
                )
            )
    last = len(raw.methods)
    doubted = {m: max(raw.mark(shift, m, rule) for shift in raw.shifts) for m in raw.methods}
    rows = [
        [
            m + doubted[m],
            f"{fmean(all_):.3f}",
            str(all_.count(1)),
            str(all_.count(last)),
            str(len(full)),
        ]
        for m, all_ in sorted(got.items(), key=lambda pair: fmean(pair[1]))
    ]
    return [["method", "mean rank", "alone first", "alone last", "blocks"], *rows]


def by_rule(raw: Raw) -> Rows:
    rows = [
        [
            "shift",
            "method",
            *(f"{rule} (ORACLE)" if rule == ORACLE else rule for rule in raw.rules()),
        ]
    ]
    for shift in raw.shifts:
        for method in raw.methods:
            means_by_rule = {
                rule: mean_and_half([*raw.values(shift, method, rule, "test", "accuracy").values()])
                for rule in raw.rules()
            }
            rows.append(
                [
                    shift,
                    method,
                    *(cell + raw.mark(shift, method, rule) for rule, cell in means_by_rule.items()),
                ]
            )
    return rows


PARTS = {
    "data": "data",
    "step": "step",
    "evaluation": "evaluation",
    "waiting": "waiting",
    "prepare": "start-up",
    "other": "other",
}


def times(raw: Raw) -> Rows:
    columns = ["data", "model", "method", "runs", "mean s", "least s", "most s", "sum h"]
    rows = [[*columns, *(f"{word} %" for word in PARTS.values()), "rows/s", "peak MiB"]]
    done = [run for run in raw.runs if run["status"] in ("finished", "diverged")]
    for data, model, method in dict.fromkeys(
        (run["data"], run["model"], run["method"]) for run in done
    ):
        alike_runs = [
            run
            for run in done
            if (run["data"], run["model"], run["method"]) == (data, model, method)
        ]
        took = [run["cost"].get("total_seconds", run["seconds"]) for run in alike_runs]
        speed = [
            run["cost"]["images_per_second"]
            for run in alike_runs
            if run["cost"].get("images_per_second") is not None
        ]
        memory = [
            run["cost"]["peak_memory_bytes"]
            for run in alike_runs
            if run["cost"].get("peak_memory_bytes") is not None
        ]
        row = [
            data,
            model,
            method,
            str(len(alike_runs)),
            f"{fmean(took):.2f}",
            f"{min(took):.2f}",
            f"{max(took):.2f}",
        ]
        row.append(f"{sum(took) / 3600:.3f}")
        for training_part in PARTS:
            spent = [
                run["cost"][f"{training_part}_seconds"]
                for run in alike_runs
                if f"{training_part}_seconds" in run["cost"]
            ]
            row.append(f"{100 * sum(spent) / sum(took):.1f}" if spent else "-")
        row += [
            f"{fmean(speed):.0f}" if speed else "-",
            f"{max(memory) / 2**20:.0f}" if memory else "-",
        ]
        rows.append(row)
    return rows


def states(raw: Raw) -> Rows:
    names = ["finished", "diverged", "failed"]
    names += [
        name for name in dict.fromkeys(run["status"] for run in raw.runs) if name not in names
    ]
    rows = [["data", "model", "method", "runs", *names]]
    for key in dict.fromkeys((run["data"], run["model"], run["method"]) for run in raw.runs):
        count = Counter(
            run["status"] for run in raw.runs if (run["data"], run["model"], run["method"]) == key
        )
        rows.append([*key, str(sum(count.values())), *(str(count[name]) for name in names)])
    return rows


def trouble(raw: Raw) -> Rows:
    rows = [
        [
            "status",
            "data",
            "shift",
            "size",
            "model",
            "method",
            "point",
            "seeds",
            "reason",
            "key of the first",
        ]
    ]
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for run in raw.runs:
        if run["status"] in ("failed", "diverged"):
            reason = run["reason"] or (run["warnings"] or ["no reason recorded"])[0]
            names = (
                run[name] or "-" for name in ("data", "shift", "size", "model", "method", "point")
            )
            groups.setdefault((run["status"], *names, reason), []).append(run)
    for key, alike_runs in groups.items():
        rows.append(
            [
                *key[:-1],
                ", ".join(str(run["seed"]) for run in alike_runs),
                key[-1],
                alike_runs[0]["key"][:10],
            ]
        )
    return rows


def warnings(raw: Raw) -> Rows:
    counts = Counter(text for run in raw.runs for text in dict.fromkeys(run["warnings"]))
    return [["warning", "runs"], *([text, str(number)] for text, number in counts.most_common())]


def cells(raw: Raw) -> list[tuple[str, Rows]]:
    """A table an attribute for the draw of each shift, then those of the test set."""
    ((data, entry),) = raw.resolved["data"].items()
    label, attributes = entry["label"], list(entry["attributes"])
    sets = []
    for shift in raw.shifts:
        done = [
            run
            for run in raw.runs
            if run["shift"] == shift and run["status"] in ("finished", "diverged")
        ]
        split_file = raw.out / "artifacts" / done[0]["key"][:2] / done[0]["key"] / "split.json"
        sets.append(json.loads(split_file.read_text(encoding="utf-8"))["sets"])
    out: list[tuple[str, Rows]] = []
    for set_counts in [*(entry["train"] for entry in sets), sets[0]["test"]]:
        for attribute in attributes:
            sums: dict[str, dict[str, list[float]]] = {}
            for cell, count in set_counts["cells"].items():
                named = dict(word.split("=") for word in cell.split(", "))
                pair = sums.setdefault(named[label], {}).setdefault(named[attribute], [0, 0])
                pair[0] += count["planned"]
                pair[1] += count["realised"]
            values = list(dict.fromkeys(value for row in sums.values() for value in row))
            rows = [[label, *(f"{attribute}={value}" for value in values)]]
            for name, row in sums.items():
                rows.append(
                    [
                        name,
                        *(
                            f"{round(row[v][0], 3):g} / {row[v][1]}" if v in row else "0 / 0"
                            for v in values
                        ),
                    ]
                )
            out.append((f"cells-{attribute}", rows))
    return out


def expected(raw: Raw, on_page: bool = True) -> list[tuple[str, Rows]]:
    """Every table that the page must have, in its order, by the first part of its name; without
    `on_page` as text has them."""
    out = cells(raw)
    for rule in raw.resolved["selection"]:
        out.append(("difference", differences(raw, rule, on_page)))
        out += [
            ("accuracy", by_shift(raw, rule, "accuracy")),
            ("seeds-accuracy", every_seed(raw, rule)),
        ]
        out += [("worst-group", worst_groups(raw, rule)), ("ece", by_shift(raw, rule, "ece"))]
    out += exhibits(raw)
    out += [("ranks", ranks(raw, rule)) for rule in raw.resolved["selection"]]
    out += [("rules", by_rule(raw)), ("time", times(raw)), ("runs", states(raw))]
    optional_tables = [("trouble", trouble(raw)), ("warnings", warnings(raw))]
    return out + [(name, rows) for name, rows in optional_tables if len(rows) > 1]


def exhibits(raw: Raw) -> list[tuple[str, Rows]]:
    """The bars that the first seed of every shift and method left, in the order of the runs."""
    out: list[tuple[str, Rows]] = []
    for labels, path in raw.exhibits:
        for name, exhibit in json.loads(path.read_text()).items():
            named = f"{labels['method']} under {labels['shift']}, seed {labels['seed']}: {name}"
            rows = [[key, f"{value:.3f}"] for key, value in exhibit["values"].items()]
            out.append(
                (re.sub("[^a-z0-9+]+", "-", named.lower()), [["name", exhibit["unit"]], *rows])
            )
    return out


def numbers_in(tables: list[tuple[str, Rows]]) -> int:
    return sum(
        bool(re.search(r"\d", cell)) for _, rows in tables for row in rows[1:] for cell in row
    )


ALL_ROWS = ("rank-test-", "variance-", "beats-", "pairs-", "tuning-", "by-")
ALL_ROWS_TITLES = ("Ranks over data sets", "What the variance of accuracies")
"""One of these is the first of them in text."""


def check(out: Path, printed: str) -> int:
    """Compare, and say in how many cells there was a number."""
    reader = Tables()
    reader.feed((out / "report.html").read_text(encoding="utf-8"))
    raw = Raw(out)
    expected_tables = expected(raw)
    # Tables of single rows' answers and of learning curves are recomputed in test_rows.py, that of
    # actions in test_idle_methods.py, that of every run in test_page.py.
    of_rows = (
        "confusion-",
        "curves-",
        "actions",
        "each-run",
        f"cells-{next(iter(raw.resolved['data']))}-",
        # Of all rows of a study together, recomputed in test_conclusions.py and test_setting_curves.py.
        *ALL_ROWS,
    )
    reader.named_tables = [
        (name, rows) for name, rows in reader.named_tables if not name.startswith(of_rows)
    ]
    assert [name for name, _ in expected_tables] == [
        next(
            (
                short
                for short, _ in expected_tables
                if name == short or name.startswith(f"{short}-{raw.name}-")
            ),
            name,
        )
        for name, _ in reader.named_tables
    ]
    for (name, rows), (_, shown_rows) in zip(expected_tables, reader.named_tables, strict=True):
        assert shown_rows == rows, name
    before, _, actions = printed.partition("What methods did beside plain training")
    together = min((at for at in map(before.find, ALL_ROWS_TITLES) if at >= 0), default=len(before))
    if actions:
        printed = before[:together] + actions[actions.find("Where the time went") :]
    else:
        printed = before[:together] + before[before.find("Where the time went") :]
    blocks = text_tables(printed)
    order = ("accuracy", "difference", "worst-group", "ece")
    printed_tables = expected(raw, on_page=False)
    for rule_number in range(len(raw.resolved["selection"])):
        for kind in order:
            rows = [rows for name, rows in printed_tables if name == kind][rule_number]
            assert whole(blocks, rows[0]) == rows, f"text: {kind}"
    assert whole(blocks, times(raw)[0]) == times(raw)
    assert whole(blocks, states(raw)[0]) == states(raw)
    assert blocks == []
    return numbers_in(reader.named_tables)


@pytest.fixture
def reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Path], str]:
    monkeypatch.setattr(page_module, "runtime", lambda: "var vegaEmbed;")

    def report(out: Path) -> str:
        capsys.readouterr()
        assert _status(["report", str(out), "--tables", "all"]) == 0
        return capsys.readouterr().out

    return report


def test_every_number_of_a_small_store(tmp_path: Path, reported: Callable[[Path], str]) -> None:
    out = whole_store(tmp_path / "out")
    assert check(out, reported(out)) == 173


def test_every_second_of_a_small_store(tmp_path: Path, reported: Callable[[Path], str]) -> None:
    out = whole_store(tmp_path / "out")
    with closing(sqlite3.connect(out / "store.sqlite")) as connection, connection:
        for run_number, (key,) in enumerate(
            connection.execute("SELECT key FROM runs ORDER BY key").fetchall()
        ):
            part_seconds = {
                f"{training_part}_seconds": (1 + number) * (0.1 + 0.01 * run_number)
                for number, training_part in enumerate(PARTS)
            }
            run_cost = {
                **part_seconds,
                "total_seconds": sum(part_seconds.values()),
                "images_per_second": 100.5 + run_number,
            }
            run_cost |= {
                "validation_seconds": 0.05,
                "peak_memory_bytes": 3e8 + 1e7 * run_number,
                "peak_memory_of_run": 1.0,
            }
            connection.execute(
                "UPDATE runs SET cost = ? WHERE key = ?", (json.dumps(run_cost), key)
            )
    shares = check(out, reported(out)) - 173
    assert shares == 2 * len(PARTS)  # two methods


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_every_number_of_the_demo(tmp_path: Path, reported: Callable[[Path], str]) -> None:
    out = tmp_path / "out"
    settings = ["--scale", "tiny", "--set", "seeds=2", "--set", "claims=[]"]
    assert _status(["run", "demo", "--workers", "2", "--out", str(out), *settings]) == 0
    # GroupDRO's twelve groups of two shifts, each named by numbers and with its weight.
    # Two of the 198 are the runs that say of themselves, under two shifts, that four steps moved
    # nothing.
    assert check(out, reported(out)) == 198 + 2 * len(PARTS) + 2 * 12


def test_the_two_printed_tables_are_of_the_setting_that_the_answer_is_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_page, "DATA", 3)
    out = report_page.synthetic_store(tmp_path / "out", 150)
    with Store.open(out) as store:
        study = gather(store, "many")
    findings = study.findings
    assert findings is not None
    different = [at_place for at_place in study.places if at_place.place != study.places[0].place]
    about = replace(findings.answer, place=different[-1].place)
    vars(study)["findings"] = replace(findings, answer=about)
    text, data = study.to_text(), different[-1].place.data
    assert f"Accuracy in % on test ({data}), ± half of a 95% interval" in text
    assert f"in % on test ({data})" in study._repr_html_()
    expected = [table.to_text(80) for table in overview(different[-1], data)]
    assert all(table in text for table in expected)
    assert overview(different[-1])[0].rows != overview(study.places[0])[0].rows
