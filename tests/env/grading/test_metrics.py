"""Metrics against scikit-learn as the oracle, and the formula for skill."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics as oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.errors import OptionError
from mappa_env.grading.formulas import multiclass_log_loss, weighted_f1
from mappa_env.grading.metrics import (
    MAX_SKILL,
    METRICS,
    evaluate,
    higher_is_better,
    metric_named,
    skill,
)
from mappa_env.grading.spelling import canonical

VALUES = {
    "rmse": oracle.root_mean_squared_error,
    "mcrmse": oracle.root_mean_squared_error,
    "mse": oracle.mean_squared_error,
    "mae": oracle.mean_absolute_error,
    "mean_mae": oracle.mean_absolute_error,
    "median_ae": oracle.median_absolute_error,
    "r2": oracle.r2_score,
    "rmsle": oracle.root_mean_squared_log_error,
    "mean_rmsle": oracle.root_mean_squared_log_error,
}
numbers = st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=2, max_size=30)
labels = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=40)
halves = st.integers(-8, 8).map(lambda n: n / 2)


@settings(max_examples=60, deadline=None)
@given(numbers)
def test_number_metrics_equal_the_oracle(pairs: list[tuple[float, float]]) -> None:
    truth, pred = np.array(pairs).T
    for name, function in VALUES.items():
        if name == "r2" and np.ptp(truth) < 1e-3:
            continue
        assert evaluate(name, truth, pred) == pytest.approx(function(truth, pred), rel=1e-6, abs=1e-9), name


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1e4), st.floats(-0.999999, 1e4)), min_size=1, max_size=20))
def test_rmsle_is_defined_above_minus_one_like_the_oracle(pairs: list[tuple[float, float]]) -> None:
    truth, pred = np.array(pairs).T
    assert metric_named("rmsle").illegal(pred) is None
    assert evaluate("rmsle", truth, pred) == pytest.approx(oracle.root_mean_squared_log_error(truth, pred))
    with pytest.raises(ValueError, match="less than or equal to -1"):
        oracle.root_mean_squared_log_error(truth, pred * 0 - 1)
    assert "above -1" in str(metric_named("rmsle").illegal(pred * 0 - 1))


@settings(max_examples=60, deadline=None)
@given(labels)
def test_label_metrics_equal_the_oracle(pairs: list[tuple[int, int]]) -> None:
    t, p = np.array(pairs).T
    truth, pred = t.astype(str).astype(object), p.astype(str).astype(object)
    options = {"zero_division": 0.0}
    assert evaluate("accuracy", truth, pred) == pytest.approx(oracle.accuracy_score(t, p))
    for average in ("macro", "micro", "weighted"):
        wanted = oracle.f1_score(t, p, average=average, **options)
        assert evaluate(f"{average}_f1", truth, pred) == pytest.approx(wanted), average
    assert weighted_f1(truth, pred) == evaluate("weighted_f1", truth, pred)
    if len(set(t) | set(p)) > 1:
        wanted = oracle.cohen_kappa_score(t, p, weights="quadratic", labels=list(range(5)))
        assert evaluate("qwk", truth, pred) == pytest.approx(wanted)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8)), min_size=2, max_size=40))
def test_ranking_and_probability_metrics_equal_the_oracle(pairs: list[tuple[bool, int]]) -> None:
    truth = np.array([float(t) for t, _ in pairs])
    pred = np.array([p / 8 for _, p in pairs])  # ties are common, and so are hard wrong rows
    assert evaluate("log_loss", truth, pred) == pytest.approx(
        oracle.log_loss(truth, pred, labels=[0.0, 1.0]), rel=1e-12
    )
    both = 0 < truth.sum() < len(truth)
    wanted = oracle.roc_auc_score(truth, pred) if both else 0.5
    for name in ("roc_auc", "mean_roc_auc"):
        assert evaluate(name, truth, pred) == pytest.approx(wanted)
    if both:
        assert evaluate("normalized_gini", truth, pred) == pytest.approx(2 * wanted - 1)
    shown = truth.astype(int).astype(str).astype(object)
    guessed = (pred >= 0.5).astype(int).astype(str).astype(object)
    assert evaluate("f1", shown, guessed) == pytest.approx(
        oracle.f1_score(truth, pred >= 0.5, zero_division=0.0)
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(halves, halves), min_size=2, max_size=40))
def test_correlations_equal_scipy(pairs: list[tuple[float, float]]) -> None:
    truth, pred = np.array(pairs).T
    constant = np.ptp(truth) == 0 or np.ptp(pred) == 0
    for name, function in (
        ("pearson", scipy.stats.pearsonr),
        ("spearman", scipy.stats.spearmanr),
        ("mean_spearman", scipy.stats.spearmanr),
    ):
        wanted = 0.0 if constant else function(truth, pred).statistic
        assert evaluate(name, truth, pred) == pytest.approx(wanted, abs=1e-12), name
    if not constant:
        assert evaluate("pearson", truth, 3 * pred - 5) == pytest.approx(evaluate("pearson", truth, pred))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=20))
def test_normalised_gini_equals_the_mean_over_the_orders_of_equal_predictions(
    pairs: list[tuple[int, int]],
) -> None:
    """The formula of the competition, which lets the order of the rows decide among equal predictions."""

    def published(truth: list[int], pred: list[int]) -> float:
        def gini(order: list[int]) -> float:
            losses = np.array([truth[i] for i in order], dtype=float)
            return float(
                (np.cumsum(losses) / losses.sum()).sum() / len(losses) - (len(losses) + 1) / 2 / len(losses)
            )

        rows = range(len(truth))
        best = gini(sorted(rows, key=lambda i: -truth[i]))
        forth, back = (sorted(order, key=lambda i: -pred[i]) for order in (rows, rows[::-1]))
        return (gini(forth) + gini(back)) / 2 / best  # these two orders have the mean of all

    truth, pred = (list(column) for column in zip(*pairs, strict=True))
    if len(set(truth)) > 1:
        found = evaluate("normalized_gini", np.array(truth, dtype=float), np.array(pred, dtype=float))
        assert found == pytest.approx(published(truth, pred), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.lists(st.sampled_from("abcd"), min_size=1, max_size=5)),
        min_size=1,
        max_size=20,
    )
)
def test_ranked_lists_by_their_definition(pairs: list[tuple[str, list[str]]]) -> None:
    def average_precision(label: str, listed: list[str]) -> float:
        hits, total = 0, 0.0
        for place, each in enumerate(listed[:3], 1):
            if each == label and each not in listed[: place - 1]:  # a repeated label counts once
                hits += 1
                total += hits / place
        return total

    truth = np.array([label for label, _ in pairs], dtype=object)
    pred = np.array([" ".join(listed) for _, listed in pairs], dtype=object)
    wanted = np.mean([average_precision(*pair) for pair in pairs])
    assert evaluate("map@3", truth, pred) == pytest.approx(wanted)
    hits = np.mean([label in listed[:3] for label, listed in pairs])
    assert evaluate("hit@3", truth, pred) == pytest.approx(hits)


words = st.lists(st.sampled_from(["a", "A", "b", "cat", "über", ""]), max_size=5).map("  ".join)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(words, words), min_size=1, max_size=10))
def test_jaccard_by_its_definition(pairs: list[tuple[str, str]]) -> None:
    def index(one: str, other: str) -> float:
        a, b = set(one.lower().split()), set(other.lower().split())
        common = len(a.intersection(b))
        return 1.0 if not a and not b else common / (len(a) + len(b) - common)

    truth, pred = (np.array(column, dtype=object) for column in zip(*pairs, strict=True))
    assert evaluate("jaccard", truth, pred) == pytest.approx(np.mean([index(*pair) for pair in pairs]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(halves, halves), min_size=1, max_size=20))
def test_smape_by_its_definition(pairs: list[tuple[float, float]]) -> None:
    truth, pred = np.array(pairs).T
    rows = [0.0 if t == p == 0 else abs(p - t) / ((abs(t) + abs(p)) / 2) for t, p in pairs]
    assert evaluate("smape_fraction", truth, pred) == pytest.approx(np.mean(rows))
    assert evaluate("smape", truth, pred) == pytest.approx(100 * np.mean(rows))


@pytest.mark.parametrize("name", METRICS)
def test_no_score_of_legal_predictions_is_outside_the_stated_range(name: str) -> None:
    metric, rng = metric_named(name), np.random.default_rng(0)
    for _ in range(40):
        n = int(rng.integers(1, 12))
        truth, pred = rng.integers(0, 2, size=(2, n)).astype(float)
        if metric.takes == "number":
            truth, pred = (rng.normal(size=(2, n)) * 10.0 ** rng.integers(-12, 13)).round(14)
        elif metric.takes == "nonnegative":
            pred = pred * 1e14 - 0.999
        elif metric.takes in ("label", "ranking", "text"):
            truth, pred = (column.astype(int).astype(str).astype(object) for column in (truth, pred))
        else:
            pred = rng.random(n).round(1)
        assert metric.illegal(pred) is None
        score = evaluate(name, truth, pred)
        assert metric.lowest - 1e-12 <= score <= metric.highest + 1e-12, (truth, pred)
        assert metric.lowest <= metric.ideal <= metric.highest


def test_multiclass_log_loss_equals_the_oracle() -> None:
    rng = np.random.default_rng(0)
    truth = np.eye(3)[rng.integers(3, size=20)]
    pred = rng.dirichlet(np.ones(3), size=20)
    assert multiclass_log_loss(truth, 7 * pred) == pytest.approx(multiclass_log_loss(truth, pred))
    pred[0] = np.eye(3)[(truth[0].argmax() + 1) % 3]  # a hard wrong row
    wanted = oracle.log_loss(truth.argmax(axis=1), pred)
    assert multiclass_log_loss(truth, pred) == pytest.approx(wanted, rel=1e-12)


def test_smape_by_hand() -> None:
    assert evaluate("smape", np.array([0.0, 100.0]), np.array([0.0, 50.0])) == pytest.approx(100 / 3)
    assert evaluate("smape", np.array([1.0]), np.array([-1.0])) == 200.0


@pytest.mark.parametrize("name", METRICS)
def test_the_truth_itself_gets_the_ideal_score(name: str) -> None:
    kind = metric_named(name).takes
    texts = kind in ("label", "ranking", "text")
    truth = np.array(["0", "1", "1", "0"], dtype=object) if texts else np.array([0.0, 1.0, 1.0, 0.0])
    assert evaluate(name, truth, truth) == pytest.approx(metric_named(name).ideal, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("rmse", [1.0, float("nan")]),
        ("rmse", [1.0, float("inf")]),
        ("mae", [1e300, 0.0]),
        ("rmsle", [-1.0, 1.0]),
        ("log_loss", [0.5, 1.2]),
        ("roc_auc", [float("-inf"), 0.0]),
    ],
)
def test_illegal_predictions_are_named(name: str, bad: list[float]) -> None:
    assert metric_named(name).illegal(np.array(bad))
    assert metric_named(name).illegal(np.array([0.5, 1.0])) is None


def test_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(OptionError, match="rmsle"):
        metric_named("rmsl")


def test_labels_have_one_spelling() -> None:
    spelled = {" 1.0 ": "1", "-2.00": "-2", "1.50": "1.5", "1.": "1", "007": "7", ".5": "0.5", "-0.0": "0"}
    spelled |= {"+3": "3", "TRUE": "True", "false ": "False", "Low": "Low", "low": "low", "x.0": "x.0"}
    spelled |= {".": ".", "-": "-", "": "", "1e3": "1000", "\u0661.0": "\u0661.0"}
    assert {text: canonical(text) for text in spelled} == spelled
    assert all(canonical(value) == value for value in spelled.values())


@pytest.mark.parametrize("name", METRICS)
def test_skill_is_one_formula_for_all_metrics(name: str) -> None:
    constant, reference = (0.5, 0.9) if higher_is_better(name) else (10.0, 4.0)
    middle = (constant + reference) / 2
    beyond = 2 * reference - constant
    scores = [constant, middle, reference, beyond, 2 * constant - reference]
    found = [skill(score, constant, reference, name) for score in scores]
    assert found == pytest.approx([0.0, 0.5, 1.0, MAX_SKILL, 0.0])


def test_skill_without_a_useful_reference_asks_for_a_tenth_of_the_way_to_the_ideal() -> None:
    assert skill(0.525, 0.5, 0.4, "roc_auc") == pytest.approx(0.5)
    assert skill(9.5, 10.0, 12.0, "rmse") == pytest.approx(0.5)
    assert skill(1.0, 1.0, 1.0, "accuracy") == 1.0
    assert skill(0.9, 1.0, 1.0, "accuracy") == 0.0


@pytest.mark.parametrize(("name", "constant", "score"), [("accuracy", 0.9, 0.905), ("rmse", 10.0, 9.7)])
def test_skill_does_not_jump_with_the_reference(name: str, constant: float, score: float) -> None:
    """A hair's breadth more or less of the reference must not turn a skill of 1.25 into 0.05."""
    ideal = METRICS[name].ideal
    references = constant + (ideal - constant) * np.linspace(-0.05, 1.0, 2101)
    found = np.array([skill(score, constant, float(reference), name) for reference in references])
    assert np.abs(np.diff(found)).max() < 0.01
    assert (np.diff(found) <= 1e-12).all()  # a better reference asks for more
    assert 0.2 < found[0] < 0.6
    assert found[-1] < 0.06
