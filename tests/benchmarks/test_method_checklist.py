"""What goes with a method of the package: nothing lacks, and of a new one all is named at once."""

from __future__ import annotations

from tools.method_checklist import checklist, main, methods_of_the_package


def test_nothing_lacks_of_the_methods_that_are_there() -> None:
    assert len(methods_of_the_package()) >= 28
    assert checklist() == ""
    assert main([]) == 0


def test_all_that_a_new_method_lacks_is_one_message() -> None:
    message = checklist(["top-loss"])
    assert message.splitlines() == [
        "method 'top-loss' of the package lacks:",
        "  decide: benchmarks/effects/top-loss.yaml, a study of what its paper claims",
        "  then: python -m benchmarks.papers.effects top-loss --confirm",
        "  decide: in benchmarks/speed/method_demand.py the arithmetic that a step needs",
        "  then: python -m benchmarks.speed.method_cost top-loss",
        "  decide: its row in docs/guides/choosing-a-method.md: needs, helps where, cannot",
        "  last: python -m tools.make_methods",
    ]
    assert main(["top-loss"]) == 1
