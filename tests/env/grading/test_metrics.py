"""Metrics against scikit-learn as the oracle, and the formula for skill."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics as oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from mappa_env.errors import OptionError
from mappa_env.grading.metrics import (
    MAX_SKILL,
    METRICS,
    canonical,
    evaluate,
    higher_is_better,
    metric_named,
    multiclass_log_loss,
    skill,
    weighted_f1,
)

VALUES = {
    "rmse": oracle.root_mean_squared_error,
    "mse": oracle.mean_squared_error,
    "mae": oracle.mean_absolute_error,
    "median_ae": oracle.median_absolute_error,
    "r2": oracle.r2_score,
    "rmsle": oracle.root_mean_squared_log_error,
}
numbers = st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=2, max_size=30)
labels = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=40)


@settings(max_examples=60, deadline=None)
@given(numbers)
def test_number_metrics_equal_the_oracle(pairs: list[tuple[float, float]]) -> None:
    truth, pred = np.array(pairs).T
    for name, function in VALUES.items():
        if name == "r2" and np.ptp(truth) < 1e-3:
            continue
        assert evaluate(name, truth, pred) == pytest.approx(function(truth, pred), rel=1e-6, abs=1e-9), name


@settings(max_examples=60, deadline=None)
@given(labels)
def test_label_metrics_equal_the_oracle(pairs: list[tuple[int, int]]) -> None:
    t, p = np.array(pairs).T
    truth, pred = t.astype(str).astype(object), p.astype(str).astype(object)
    options = {"zero_division": 0.0}
    assert evaluate("accuracy", truth, pred) == pytest.approx(oracle.accuracy_score(t, p))
    assert evaluate("macro_f1", truth, pred) == pytest.approx(
        oracle.f1_score(t, p, average="macro", **options)
    )
    assert weighted_f1(truth, pred) == pytest.approx(oracle.f1_score(t, p, average="weighted", **options))
    if len(set(t) | set(p)) > 1:
        wanted = oracle.cohen_kappa_score(t, p, weights="quadratic", labels=list(range(5)))
        assert evaluate("qwk", truth, pred) == pytest.approx(wanted)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8)), min_size=2, max_size=40))
def test_ranking_and_probability_metrics_equal_the_oracle(pairs: list[tuple[bool, int]]) -> None:
    truth = np.array([float(t) for t, _ in pairs])
    pred = np.array([p / 8 for _, p in pairs])  # ties are common
    assert evaluate("log_loss", truth, pred) == pytest.approx(
        oracle.log_loss(truth, np.clip(pred, 1e-15, 1 - 1e-15), labels=[0.0, 1.0])
    )
    both = 0 < truth.sum() < len(truth)
    wanted = oracle.roc_auc_score(truth, pred) if both else 0.5
    assert evaluate("roc_auc", truth, pred) == pytest.approx(wanted)
    shown = truth.astype(int).astype(str).astype(object)
    guessed = (pred >= 0.5).astype(int).astype(str).astype(object)
    assert evaluate("f1", shown, guessed) == pytest.approx(
        oracle.f1_score(truth, pred >= 0.5, zero_division=0.0)
    )


def test_multiclass_log_loss_equals_the_oracle() -> None:
    rng = np.random.default_rng(0)
    truth = np.eye(3)[rng.integers(3, size=20)]
    pred = rng.dirichlet(np.ones(3), size=20)
    wanted = oracle.log_loss(truth.argmax(axis=1), pred)
    assert multiclass_log_loss(truth, pred) == pytest.approx(wanted)
    assert multiclass_log_loss(truth, 7 * pred) == pytest.approx(wanted)


def test_smape_by_hand() -> None:
    assert evaluate("smape", np.array([0.0, 100.0]), np.array([0.0, 50.0])) == pytest.approx(100 / 3)
    assert evaluate("smape", np.array([1.0]), np.array([-1.0])) == 200.0


@pytest.mark.parametrize("name", METRICS)
def test_the_truth_itself_gets_the_ideal_score(name: str) -> None:
    kind = metric_named(name).takes
    truth = (
        np.array(["0", "1", "1", "0"], dtype=object) if kind == "label" else np.array([0.0, 1.0, 1.0, 0.0])
    )
    assert evaluate(name, truth, truth) == pytest.approx(metric_named(name).ideal, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("rmse", [1.0, float("nan")]),
        ("rmse", [1.0, float("inf")]),
        ("mae", [1e300, 0.0]),
        ("rmsle", [-0.1, 1.0]),
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
    assert [canonical(t) for t in (" 1.0 ", "1", "-2.00", "1.5", "Low", "x.0", "1.")] == [
        "1",
        "1",
        "-2",
        "1.5",
        "Low",
        "x.0",
        "1",
    ]


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
