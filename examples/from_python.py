"""The main job from Python: one data set, one shift, two methods, and where each of them fails.

Shows `load`, `&` of two shifts, `split` and what it drew, `train`, `evaluate`. Takes about 20
seconds on one core.

    python examples/from_python.py
"""

import crosswind as cw


def main(steps: int = 300) -> dict[str, float]:
    digits = cw.load("digits")
    print(
        f"{digits.name}: {digits.n_rows} rows; attributes"
        f" {', '.join(item.name for item in digits.schema)}"
    )

    # In training the ink goes with the digit but for a fifth of the rows, and large digits are
    # never seen.
    shift = cw.SpuriousCorrelation("ink", counterexamples=0.2) & cw.UnseenData("size", ["large"])
    # Groups are (digit, ink): those that the shift tears apart. The test rows hold all combinations
    # alike often.
    split = cw.split(
        digits, "digit", ["ink", "size"], shift, draw={"total": 240}, test=4, groups=["ink"], seed=0
    )
    tested = split.evaluation["test"]
    print(
        f"{len(split.train.rows)} training rows, {len(tested.rows)} test rows,"
        f" {len(tested.group_names)} groups"
    )

    worst = {}
    for method, knobs in {"erm": {}, "groupdro": {"eta": 0.01}}.items():
        trained = cw.train(
            method, split, digits, model="mlp", seed=0, steps=steps, validate_every=50, knobs=knobs
        )
        scores = cw.evaluate(trained, split)["test"]
        print(
            f"{method}: accuracy {scores['accuracy']:.3f}, worst group {scores['worst_group']:.3f}"
            f" ({scores['worst_group_name']}), chosen at step {trained.selections['best-id'].step}"
        )
        worst[method] = scores["worst_group"]
    return worst


if __name__ == "__main__":
    main()
