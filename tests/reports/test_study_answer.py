"""The first screen of a report: the question in plain words, the answer, its picture, what is next;
each against numbers that were put in."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_fuzz_stores import whole_store
from tests.reports.test_questions import GROUPS, scored_rows

from crosswind.reports.claims.answer_picture import picture_of, picture_of_findings
from crosswind.reports.claims.findings import Findings, find
from crosswind.reports.claims.judgements import judge
from crosswind.reports.claims.shift_words import shift_clause
from crosswind.reports.claims.study_answer import StudyAnswer, answer_of
from crosswind.reports.claims.verdicts import COST, EFFECT_OF
from crosswind.reports.gather import gather
from crosswind.reports.page_head import StudyHead, _caption, study_head
from crosswind.reports.scores.results import arrange
from crosswind.storage.store import Store
from crosswind.studies.spec import PooledClaim, load_study

SHIFTS: dict[str, Any] = {
    "none": [],
    "SC": {"type": "spurious-correlation", "attribute": "ruler", "counterexamples": 0.1},
    "UDS": {"type": "unseen-data", "attribute": "skin", "unseen": ["dark", "light"]},
    "SC+UDS": ["SC", "UDS"],
}
ACCURACY = {
    ("none", "erm"): 0.9,
    ("SC", "erm"): 0.7,
    ("SC", "groupdro"): 0.8,
    ("SC", "jtt"): 0.7,
    ("UDS", "erm"): 0.8,
    ("SC+UDS", "erm"): 0.65,
}


def found(
    accuracy: Any = None,
    n: int = 8,
    spread: float = 0.02,
    runs: Any = (),
    rows: Any = None,
    **more: Any,
) -> Findings:
    if rows is None:
        rows = scored_rows(ACCURACY if accuracy is None else accuracy, n, spread)
    about = {
        "reference": "erm",
        "selection": ["last"],
        "shifts": SHIFTS,
        "sets": {"test": {"law": "uniform"}},
        "data": {"moles": {"source": "table", "label": "kind", "attributes": ["ruler", "skin"]}},
        "methods": {"erm": {}, "groupdro": {}, "jtt": {}},
        **more,
    }
    findings = find(arrange(rows).shown(["last"]), about, [], list(runs))
    assert findings is not None
    return findings


def numbers(finding: Any) -> str:
    """A difference in points with its interval, written here again."""
    low, high = sorted(abs(100 * end) for end in finding.interval)
    return f"{abs(100 * finding.difference.mean):.1f} points [{low:.1f}, {high:.1f}]"


def the(findings: Findings, kind: str, shift: str, method: str, metric: str = "accuracy") -> Any:
    (one,) = [
        finding
        for finding in findings.items
        if (finding.kind, finding.shift, finding.method, finding.metric)
        == (kind, shift, method, metric)
    ]
    return one


def test_the_question_says_what_training_was_like() -> None:
    assert found().answer.question == (
        "How much accuracy does plain training (erm) lose when, in training, ruler gives the label"
        " (kind) away (SC), skin dark or light is never seen (UDS) or several of these come"
        " together, and does any method win it back?"
    )


def test_a_combination_alone_is_said_by_its_parts() -> None:
    accuracy = {key: value for key, value in ACCURACY.items() if key[0] in ("none", "SC+UDS")}
    assert found(accuracy).answer.question == (
        "How much accuracy does plain training (erm) lose when, in training, ruler gives the label"
        " (kind) away (SC) and skin dark or light is never seen (UDS), all at once (SC+UDS)?"
    )


def test_the_answer_names_the_largest_cost_and_gain_with_the_intervals_of_their_verdicts() -> None:
    findings = found()
    hurts, helps = findings.answer.sentences
    cost = the(findings, COST, "SC+UDS", "erm")
    assert hurts.startswith("All 3 shifts cost accuracy. SC+UDS, the largest cost in these runs,")
    assert f"takes {numbers(cost)} off the 90.{cost.base * 1000 % 10:.0f}%" in hurts
    worst = the(findings, COST, "SC+UDS", "erm", "worst_group")
    assert f"{numbers(worst)} off its worst group" in hurts
    gain = the(findings, EFFECT_OF, "SC", "groupdro")
    assert helps.startswith(
        f"1 of 2 methods wins some of it back under SC; groupdro, {numbers(gain)}"
    )
    assert findings.answer.command == "crosswind show method groupdro"


def test_what_cannot_be_told_is_not_told_and_the_seeds_it_takes_are_asked_for() -> None:
    level = {**dict.fromkeys(ACCURACY, 0.8), ("SC", "groupdro"): 0.88}
    findings = found(level, n=4, spread=0.05)
    assert any(one.difference.mean > 0 for one in findings.items if one.kind == EFFECT_OF)
    answer = findings.answer
    assert answer.sentences[0].startswith(
        "No shift is shown to cost accuracy (at best a cost of 16 points would have been told"
    )
    assert answer.sentences[1] == "None of 2 methods is shown to do better."
    assert answer.next_step == (
        "4 seeds leave open how far runs spread: run 10, which say how many would tell 5 points."
    )
    assert answer.command == "crosswind run STUDY --set seeds=10"


@pytest.mark.parametrize(("n", "spread"), [(4, 0.015), (12, 0.03)])
def test_as_many_seeds_as_tell_5_points_are_asked_for(n: int, spread: float) -> None:
    level = {**dict.fromkeys(ACCURACY, 0.8), ("SC", "groupdro"): 0.82}
    findings = found(level, n=n, spread=spread)
    most = sorted(one.seeds[1] for one in findings.items if one.metric == "accuracy" and one.seeds)
    number = most[len(most) // 2]
    assert n < number <= 50
    assert findings.answer.command == f"crosswind run STUDY --set seeds={number}"
    assert findings.answer.next_step.startswith("to tell 5 points") and (
        f"run {number} seeds." in findings.answer.next_step
    )


def test_more_seeds_are_asked_for_beside_those_that_were_run() -> None:
    first = found(n=1, seeds=[7]).answer
    assert shlex.split(first.command)[-1] == "seeds=[7,8,9,10,11]"
    assert found(n=1, seeds=[0]).answer.command.endswith("--set seeds=5")


def test_one_seed_tells_nothing_and_five_are_asked_for() -> None:
    answer = found(n=1).answer
    assert answer.command.endswith("--set seeds=5")
    # "Not shown to cost accuracy" would be read as the finding that nothing is lost.
    (single,) = answer.sentences
    assert re.fullmatch(
        r"Each number is of a single run, which tells neither a cost nor a gain from chance; the"
        r" largest loss is [\d.]+ points, under SC\+UDS\.",
        single,
    )


def test_a_setting_in_which_methods_were_tried_answers_for_one_that_loses_more() -> None:
    """A forest that no method trains lost 25 points, and the network that methods train 20: what
    helps is not left out of the answer, nor is the forest."""
    lost = {("none", "erm"): 0.9, ("SC", "erm"): 0.65}
    rows = [
        {**row, "model": model}
        for model, accuracy in (("forest", lost), ("mlp", ACCURACY), ("oak", lost))
        for row in scored_rows(accuracy)
    ]
    two = found(rows=[row for row in rows if row["model"] != "oak"]).answer
    assert two.place.model == "mlp" and two.question.endswith("does any method win it back?")
    assert two.command == "crosswind show method groupdro"
    assert re.fullmatch(
        r"With the other model, forest, SC costs [\d.]+ points \[[\d.]+, [\d.]+\] of accuracy\.",
        two.sentences[-1],
    )
    three = found(rows=rows).answer
    assert re.match(
        r"With 2 of 2 other models a shift costs accuracy; with (forest|oak), the most in these runs,"
        r" SC costs ",
        three.sentences[-1],
    )
    calm = {("none", "erm"): 0.9, ("SC", "erm"): 0.92}
    rows = [row for row in rows if row["model"] == "mlp"]
    rows += [{**row, "model": "forest"} for row in scored_rows(calm)]
    assert found(rows=rows).answer.sentences[-1] == (
        "With the other model, forest, no shift is shown to cost accuracy."
    )


def test_where_no_setting_learns_the_answer_says_so_of_all() -> None:
    rows = [
        {**row, "model": model}
        for model in ("forest", "mlp")
        for row in scored_rows(dict.fromkeys(ACCURACY, 0.5))
    ]
    (idle,) = found(rows=rows).answer.sentences
    assert idle.startswith("No answer yet for any of 2 models: forest: erm learns nothing")
    rows += [{**row, "model": "tree"} for row in scored_rows(ACCURACY)]
    answer = found(rows=rows).answer
    assert answer.place.model == "tree", "one that learns answers for those that do not"


def test_a_method_that_loses_under_another_shift_is_not_advised_without_saying_so() -> None:
    accuracy = {**ACCURACY, ("UDS", "groupdro"): 0.7}
    answer = found(accuracy).answer
    assert re.match(
        r"train with groupdro, which loses [\d.]+ points \[[\d.]+, [\d.]+\] under UDS; see first",
        answer.next_step,
    )


def test_a_method_under_a_name_of_the_studys_own_is_said_to_be_what_it_is() -> None:
    """`crosswind show method erm` alone tells nothing of what was changed."""
    accuracy = {
        key if key[1] != "groupdro" else (key[0], "even"): value for key, value in ACCURACY.items()
    }
    methods = {"erm": {}, "even": {"method": "erm", "sampler": "balanced"}, "jtt": {}}
    answer = found(accuracy, methods=methods).answer
    assert answer.next_step.startswith("train with even (erm with sampler balanced); see first")
    assert answer.command == "crosswind show method erm"


@pytest.mark.parametrize("scale", [None, "tiny"])
def test_the_command_runs_the_study_as_it_was_run(scale: str | None) -> None:
    """With more seeds and every other setting; a value that a shell would part stands in quotes."""
    words = ["training.lr=0.02", "methods={erm: {}, groupdro: {eta: 0.5}, jtt: {}}", "seeds=4"]
    written = load_study("demo", scale, words).model_dump(mode="json", exclude_unset=True)
    rows = [{**row, "study": "demo"} for row in scored_rows(ACCURACY, 4, 0.3)]
    about = {"reference": "erm", "selection": ["last"], "shifts": SHIFTS}
    findings = find(arrange(rows).shown(["last"]), about, [], [], written)
    assert findings is not None
    crosswind, run, name, *options = shlex.split(findings.answer.command)
    assert (crosswind, run, name) == ("crosswind", "run", "demo")
    assert ("--scale" in options) == (scale is not None)
    assert scale is None or options[:2] == ["--scale", scale]
    settings = [word for word in options if "=" in word]
    assert settings[0] == "seeds=10" and options.count("--set") == len(settings)
    assert load_study("demo", scale, settings) == load_study("demo", scale, [*words, "seeds=10"])


def test_a_study_that_is_a_scale_of_another_is_run_by_the_file_that_describes_it() -> None:
    written = load_study("jeon2025/controlled", "transfer", ["seeds=2"])
    assert written.name == "jeon2025/transfer"
    rows = [{**row, "study": written.name} for row in scored_rows(ACCURACY, 2, 0.3)]
    about = {"reference": "erm", "selection": ["last"], "shifts": SHIFTS}
    fields = written.model_dump(mode="json", exclude_unset=True)
    findings = find(arrange(rows).shown(["last"]), about, [], [], fields)
    assert findings is not None
    command = shlex.split(findings.answer.command)
    assert command[:5] == ["crosswind", "run", "jeon2025/controlled", "--scale", "transfer"]


def repeated(n: int, spread: float, seeds: int = 1, gain: float = 0.03) -> StudyAnswer:
    """The answer of a study whose runs are repeated by split seeds."""
    level = {**dict.fromkeys(ACCURACY, 0.8), ("SC", "groupdro"): 0.8 + gain}
    rows = []
    for row in scored_rows(level, n * seeds, spread):
        rows.append({**row, "split_seed": row["seed"] // seeds, "seed": row["seed"] % seeds})
    about = {"reference": "erm", "selection": ["last"], "shifts": SHIFTS}
    findings = find(arrange(rows).shown(["last"]), about, [], [])
    assert findings is not None
    assert {finding.difference.splits for finding in findings.items} == {n}
    return findings.answer


def test_a_study_that_repeats_by_split_seeds_is_asked_for_more_of_them() -> None:
    """Ten of them with a wide spread tell nothing; "run five seeds" would be fewer."""
    answer = repeated(10, 0.1)
    needed = re.search(r"which would take (\d+) split seeds; 50 would tell (\d+)", answer.next_step)
    assert needed and answer.command == "crosswind run STUDY --set split_seeds=50"
    assert int(needed[1]) > 50 and int(needed[2]) == round(5 * (int(needed[1]) / 50) ** 0.5)
    assert repeated(50, 0.5).command == "", "a study of so many is rather changed"
    crossed = repeated(6, 0.1, seeds=2)
    assert crossed.command == "crosswind run STUDY --set split_seeds=12"
    assert "not reckoned where seeds are crossed" in crossed.next_step
    assert "with a power" not in " ".join([*crossed.sentences, crossed.next_step])


def test_no_more_runs_are_asked_for_where_there_were_enough() -> None:
    for answer in (
        repeated(12, 0.01, gain=0.0),
        found(dict.fromkeys(ACCURACY, 0.8), 12, 0.01).answer,
    ):
        assert answer.command == ""
        assert answer.next_step.startswith("5 points would have been told")


def test_a_label_that_is_called_so_is_named_once() -> None:
    shift = {"type": "spurious-correlation", "attribute": "ruler"}
    about = {"shifts": {"S": shift}, "data": {"moles": {"label": "label", "attributes": ["ruler"]}}}
    assert shift_clause("S", about, "moles") == "ruler gives the label away"


def test_a_network_that_guesses_is_the_whole_answer() -> None:
    findings = found(dict.fromkeys(ACCURACY, 0.5))
    (said,) = findings.answer.sentences
    assert said.startswith("No answer yet: erm learns nothing")
    assert "no more than guessing (50.0%)" in said
    assert said.count("erm learns nothing") == findings.to_text().count("erm learns nothing") == 1


def test_without_an_unshifted_run_a_reference_that_guesses_is_said_to() -> None:
    """ "None is shown to do better" alone lets a reader believe that there was something to better."""
    accuracy = {("SC", "erm"): 0.5, ("SC", "jtt"): 0.51, ("UDS", "erm"): 0.8, ("UDS", "jtt"): 0.8}
    answer = found(accuracy, n=12).answer
    assert answer.sentences[-1] == (
        "erm is no better than guessing under SC, and no run without a shift says whether it learns"
        " the task at all."
    )
    blind = {key: 0.5 for key in accuracy if key[0] == "SC"}
    assert found(blind, n=2, spread=0.1).answer.next_step.startswith("add a shift that is [] to")
    learnt = dict.fromkeys(accuracy, 0.8)
    assert not any("guessing" in sentence for sentence in found(learnt).answer.sentences)


def test_a_network_that_guesses_and_yet_loses_its_worst_group_is_both_told() -> None:
    """Without a shift every group is right half of the time; tied, the worst loses 20 points."""
    lower = {**GROUPS, "kind=melanoma, ruler=no": -0.4}
    even = scored_rows({("none", "erm"): 0.5}, 12, 0.01)
    tied = scored_rows({("SC", "erm"): 0.5}, 12, 0.012, lower)
    rows = [*even, *tied]
    findings = found(rows=rows)
    idle, even_so = findings.answer.sentences
    assert idle.startswith("No answer yet: erm learns nothing")
    assert even_so.startswith("Even so SC takes 20.0 points") and "worst group" in even_so


def test_runs_that_are_not_done_come_first_of_what_is_next() -> None:
    answer = found(runs=[{"status": "finished"}, {"status": "pending"}]).answer
    assert answer.next_step == "1 of 2 runs are not done; finish them."


@pytest.mark.parametrize(
    ("shift", "clause"),
    [
        ({"type": "low-data-drift", "attribute": "skin", "low": "dark"}, "skin dark is rare"),
        ({"type": "low-data-drift", "attribute": "skin", "low": {"a": "b"}}, "some values of skin are rare"),
        ({"type": "unseen-data", "attribute": "skin", "unseen": "last"}, "the last value of skin is never seen"),
        ({"type": "unseen-data", "attribute": "skin", "unseen": list("abcde")}, "skin a, b, c or 2 more is never seen"),
        ({"type": "somebody-elses"}, ""),
        ([], ""),
    ],
)  # fmt: skip
def test_a_shift_in_plain_words(shift: Any, clause: str) -> None:
    assert shift_clause("S", {"shifts": {"S": shift}}) == clause


def test_the_picture_holds_every_number_at_its_place() -> None:
    findings = found()
    picture = picture_of(findings.answer.place, findings.items, {"shifts": SHIFTS})
    assert picture is not None and picture.columns == ["Accuracy", "Worst group"]
    assert [row.name for row in picture.rows] == ["SC+UDS", "SC", "groupdro", "jtt", "UDS"]
    assert picture.hidden == 0
    cost, gain = picture.rows[1].strips[0], picture.rows[2].strips[0]
    assert cost is not None and gain is not None
    # What a method wins back begins where its shift left off, on the scale of the ticks.
    assert gain.start == cost.end < gain.end < picture.zero == cost.start
    (first, _), (second, _) = picture.ticks[:2]
    step = int(picture.ticks[1][1].replace("\N{MINUS SIGN}", "-")) - int(
        picture.ticks[0][1].replace("\N{MINUS SIGN}", "-")
    )
    moved = 100 * the(findings, COST, "SC", "erm").difference.mean * (second - first) / step
    assert cost.end - picture.zero == pytest.approx(moved, abs=0.05)
    assert (cost.kind, gain.kind) == ("loss", "gain")
    jtt = picture.rows[3].strips[0]
    assert jtt is not None and jtt.kind == "open"


def test_a_picture_that_is_cut_says_how_many_rows_it_lacks() -> None:
    findings = found()
    picture = picture_of(findings.answer.place, findings.items, {}, most_rows=2, most_methods=1)
    assert picture is not None and len(picture.rows) == 2 and picture.hidden == 3


def test_intervals_beyond_what_is_possible_end_at_the_edge() -> None:
    findings = found(n=2, spread=0.3)
    picture = picture_of_findings(findings.items, lambda finding: "")
    assert picture is not None
    ends = [
        end for row in picture.rows for cell in row.strips if cell for end in (cell.low, cell.high)
    ]
    assert min(ends) == 0 and max(ends) == 100  # type: ignore[type-var]


def test_of_several_settings_the_answer_names_the_one_that_it_is_about() -> None:
    rows = [
        {**row, "data": data}
        for data, accuracy in (
            ("moles", ACCURACY),
            ("birds", {key: 0.9 - (0.9 - value) / 2 for key, value in ACCURACY.items()}),
        )
        for row in scored_rows(accuracy)
    ]
    about = {"reference": "erm", "selection": ["last"], "shifts": SHIFTS}
    about["sets"] = {"test": {"law": "uniform"}}
    findings = find(arrange(rows).shown(["last"]), about, [], [])
    assert findings is not None and findings.answer.place.data == "moles"
    assert findings.answer.sentences[0].startswith(
        "moles (one of 2 data sets, all stand below): All 3 shifts cost accuracy."
    )


def test_text_json_and_notebook_hold_the_answer() -> None:
    findings = found()
    answer = findings.answer
    text = " ".join(findings.to_text().split())
    assert text.startswith(answer.question)
    assert all(line in text for line in answer.lines)
    written = findings.to_json()["answer"]
    assert written["question"] == answer.question and written["sentences"] == answer.sentences


def test_single_runs_have_no_brackets_to_explain() -> None:
    single = found(dict.fromkeys(ACCURACY, 0.8), 1, 0.01).answer
    assert single.certainty.endswith("; of single runs there is no interval.")
    several = found(dict.fromkeys(ACCURACY, 0.8), 3, 0.01).answer
    assert "; brackets hold " in several.certainty


def test_three_seeds_of_one_difference_are_not_said_to_be_single_runs() -> None:
    findings = found(ACCURACY, 3, 0.0)
    words = "; where every seed gives the same difference there is no interval."
    assert findings.answer.certainty.endswith(words)
    assert "no p and no interval: every comparison is the same at every seed" in findings.intro


def test_failed_runs_are_said_on_the_first_screen_and_what_has_no_number_at_all() -> None:
    runs = [
        {"status": status, "labels": {"model": model, "method": method, "shift": "SC"}}
        for model, method, status in (
            ("m", "erm", "finished"),
            ("m", "jtt", "failed"),
            ("m", "groupdro", "failed"),
            ("m", "groupdro", "finished"),
            ("forest", "erm", "failed"),
        )
    ]
    words = " 3 of 5 runs failed and have no number, among them all of forest and jtt."
    assert found(runs=runs).answer.certainty.endswith(words)
    assert "failed" not in found(runs=runs[:1]).answer.certainty


def test_the_first_screen_says_how_many_claims_hold() -> None:
    rows = scored_rows(ACCURACY, 8, 0.02)
    about = {"reference": "erm", "selection": ["last"], "shifts": SHIFTS, "claims": [], "sets": {}}
    place_results = arrange(rows).shown(["last"])
    findings = find(place_results, about, [], [])
    assert findings is not None
    assert "claims" not in findings.answer.certainty
    verdicts = ["holds", "cannot tell", "holds", "not run yet"]
    answer = answer_of(place_results, findings.items, about, [], {}, verdicts)
    assert answer.certainty.endswith(
        " Of the study's 4 claims, judged apart from these: 2 hold, 1 cannot be told and 1 is not run"
        " yet."
    )
    for verdicts, words in (
        (["holds"] * 3, " All 3 claims of the study hold, judged apart from these."),
        (
            ["the opposite holds"],
            " The study's claim is the other way round, judged apart from these.",
        ),
    ):
        answer = answer_of(place_results, findings.items, about, [], {}, verdicts)
        assert answer.certainty.endswith(words)


def test_a_claim_of_a_cost_that_holds_is_named_where_no_comparison_tells_one() -> None:
    """One claim alone is told by runs that do not tell it beside nine other comparisons."""
    means = {**dict.fromkeys(ACCURACY, 0.8), ("SC", "erm"): 0.745}
    rows = scored_rows(means, 5, 0.03)
    sides = {
        "better": {"method": "erm", "model": None, "shift": "none", "set": None, "minus": None},
        "than": {"method": "erm", "model": None, "shift": "SC", "set": None, "minus": None},
    }
    open_fields = ("data", "shift", "size", "model", "rule", "wins_back", "margin")
    claim = {"text": "SC costs", "set": "test", "metric": "accuracy", **sides}
    about = {
        "reference": "erm",
        "selection": ["last"],
        "shifts": SHIFTS,
        "sets": {"test": {"law": "uniform"}},
        "claims": [{**claim, **dict.fromkeys(open_fields)}],
    }
    arranged = arrange(rows)
    (judgement,) = judge(arranged, about)
    findings = find(arranged.shown(["last"]), about, [judgement], [])
    assert findings is not None and judgement.verdict == "holds"
    assert not the(findings, COST, "SC", "erm").told
    assert re.search(
        r"^No shift is shown to cost accuracy .* by all \d+ comparisons together; by the study's claims,"
        r" judged apart: SC costs \d\.\d points \[\d\.\d, \d+\.\d; 95% interval\]\.$",
        findings.answer.sentences[0],
    )


def test_a_claim_of_a_mean_cost_that_holds_is_named_with_its_interval() -> None:
    means = {**dict.fromkeys(ACCURACY, 0.8), ("SC", "erm"): 0.745, ("UDS", "erm"): 0.745}
    shifts = ["SC", "UDS"]
    mean_cost = PooledClaim(
        text="both cost",
        test="mean",
        better={"methods": "erm", "shift": "none"},
        than={"methods": "erm", "shift": shifts},
    ).model_dump()
    about = {
        "reference": "erm",
        "selection": ["last"],
        "shifts": SHIFTS,
        "methods": {"erm": {}},
        "sets": {"test": {"law": "uniform"}},
        "claims": [mean_cost],
    }
    arranged = arrange(scored_rows(means, 5, 0.03))
    (judgement,) = judge(arranged, about)
    findings = find(arranged.shown(["last"]), about, [judgement], [])
    assert findings is not None and judgement.verdict == "holds" and judgement.interval
    low, high = (f"{100 * end:.1f}" for end in judgement.interval)
    assert findings.answer.sentences[0].endswith(
        f"judged apart: {' and '.join(shifts)} cost {100 * judgement.value:.1f} points"
        f" [{low}, {high}; 95% interval] on average."
    )


def first_screen(folder: Path, statuses: dict[Any, str], **settings: Any) -> StudyHead:
    """The head of the page of a small store whose runs ended so, by their number."""
    out = whole_store(folder / "out", statuses=statuses, **settings)
    with Store.open(out) as store:
        return study_head(gather(store, "alpha"))


def test_where_every_run_failed_the_first_screen_says_so_and_why(tmp_path: Path) -> None:
    head = first_screen(tmp_path, {"else": "failed"})
    assert list(head.sentences) == ["18 of 18 runs failed: RuntimeError: no <b>luck</b>."]
    assert "--retry-failed" in head.next_step


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("pending", "Nothing can be compared yet. erm under none is right on"),
        ("failed", "Nothing can be compared: 15 of 18 runs failed. erm under none is right on"),
    ],
)
def test_a_study_of_which_one_row_is_done_is_not_said_to_compare_nothing(
    tmp_path: Path, rest: str, words: str
) -> None:
    head = first_screen(tmp_path, {**dict.fromkeys(range(3), "finished"), "else": rest})
    assert head.sentences[0].startswith(words)


def test_a_study_of_one_method_under_one_shift_compares_nothing(tmp_path: Path) -> None:
    head = first_screen(tmp_path, {}, shifts=("none",), methods=("erm",))
    assert head.sentences[0].startswith("This study compares no methods and no shifts. erm under")
    shifted = first_screen(tmp_path / "b", {}, shifts=("SC", "UDS"), methods=("erm",))
    assert shifted.sentences[0].startswith("Nothing is compared: erm runs neither beside another")


def test_where_nothing_else_is_compared_the_verdicts_on_claims_come_first(tmp_path: Path) -> None:
    """A claim whose sides are at no one place: here two shifts of one method, as well two networks."""
    wins = PooledClaim(
        text="UDS is easier",
        test="mean",
        better={"methods": "erm", "shift": "UDS"},
        than={"methods": "erm", "shift": "SC"},
    ).model_dump()
    out = whole_store(
        tmp_path / "out", shifts=("SC", "UDS"), methods=("erm",), statuses={}, claims=[wins] * 6
    )
    with Store.open(out) as store:
        study = gather(store, "alpha")
        assert study.findings is None and len(study.claims) == 6
        head = study_head(study)
        assert [sentence.partition(": ")[0] for sentence in head.sentences] == [
            *["UDS is easier"] * 4,
            "2 more claims stand below.",
        ]
        text = study.to_text()
        assert text.startswith("Claims of alpha\n  UDS is easier: ")
        assert text.index("UDS is easier") < text.index("Accuracy on test")
        assert "UDS is easier" in study._repr_html_().partition("<table")[0]


def test_the_caption_explains_methods_only_where_the_picture_has_some(tmp_path: Path) -> None:
    alone = first_screen(tmp_path / "a", {}, shifts=("none", "SC"), methods=("erm",)).caption
    assert alone.startswith(
        "What each shift costs erm, in points. The line is erm without a shift:"
    )
    assert "wins back" in first_screen(tmp_path / "b", {}).caption


def test_a_mark_of_doubt_is_explained_where_the_picture_shows_one() -> None:
    findings = found()
    picture = picture_of(findings.answer.place, findings.items, {"shifts": SHIFTS})
    assert picture is not None and "\N{DAGGER}" not in _caption(picture)
    row = picture.rows[0]
    cell = row.strips[0]
    assert cell is not None
    doubted = replace(row, strips=[replace(cell, words=f"{cell.words} \N{DAGGER}")])
    assert "\N{DAGGER}: runs told to doubt the number" in _caption(replace(picture, rows=[doubted]))


def test_claims_that_were_not_run_yet_take_no_place_of_a_score(tmp_path: Path) -> None:
    wins = PooledClaim(
        text="groupdro is better", test="mean", better="groupdro", shift="none"
    ).model_dump()
    statuses = {**dict.fromkeys(range(3), "finished"), "else": "pending"}
    out = whole_store(tmp_path / "out", statuses=statuses, claims=[wins])
    with Store.open(out) as store:
        study = gather(store, "alpha")
    assert study.findings is None and study.claims[0].verdict == "not run yet"
    assert study_head(study).sentences[0].startswith("Nothing can be compared yet. erm under none")
    assert not study.to_text().startswith("Claims")
