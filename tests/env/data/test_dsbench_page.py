"""``docs/dsbench.md`` says of every metric and competition what the code does."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from mappa_env.data.tabular.dsbench.competitions import competitions
from mappa_env.grading.metrics import METRICS, evaluate
from paths import ROOT

PAGE = (ROOT / "docs" / "dsbench.md").read_text(encoding="utf-8")
ROWS = {
    cells[0].strip("`"): cells[1:]
    for line in PAGE.splitlines()
    if line.startswith("| `") and len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 6
}
LEGAL = {
    "label": "a known label",
    "ranking": "known labels, separated by spaces; three count",
    "text": "any text",
    "score": "a finite number",
    "number": "a finite number",
    "probability": "a number from 0 to 1",
    "nonnegative": "a number above -1",
}


def test_the_page_has_every_metric_once_and_no_other() -> None:
    assert list(ROWS) == list(METRICS)


def test_the_pages_count_the_metrics() -> None:
    asked = {each.metric for each in competitions().values()}
    used = asked | {each.published for each in competitions().values()}
    assert (len(METRICS), len(used), len(asked)) == (28, 26, 23)
    counts = (
        f"There are {len(METRICS)} metrics. The 74 competitions use {len(used)} of them: {len(asked)} are"
    )
    assert counts in PAGE
    assert "three (`hit@3`, `mse`, `smape_fraction`)" in PAGE
    assert used - asked == {"hit@3", "mse", "smape_fraction"}
    assert "`spearman` and `weighted_f1`" in PAGE
    assert set(METRICS) - used == {"spearman", "weighted_f1"}
    figures = " ".join((ROOT / "docs" / "metrics.md").read_text(encoding="utf-8").split())
    assert f"The {len(METRICS)} metrics" in figures
    assert f"{len(used)} of them for DSBench's 74 competitions" in figures


@pytest.mark.parametrize("name", METRICS)
def test_the_row_of_a_metric_says_what_it_does(name: str) -> None:
    metric, (better, limits, legal, _, count) = METRICS[name], ROWS[name]
    assert better == ("higher" if metric.higher_is_better else "lower")
    spelled = [re.sub(r"^(-?)inf$", r"\1∞", f"{value:g}") for value in (metric.lowest, metric.highest)]
    assert limits == " to ".join(spelled)
    assert legal == LEGAL[metric.takes]
    assert int(count) == Counter(each.metric for each in competitions().values())[name]


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if LEGAL[metric.takes][0] == "a"])
def test_what_the_page_calls_illegal_is_refused(name: str) -> None:
    metric = METRICS[name]
    if metric.takes in ("label", "ranking", "text"):
        return
    bad = {"probability": (-0.01, 1.01), "nonnegative": (-1.0, -2.0)}.get(metric.takes, ())
    for value in (float("nan"), float("inf"), 1.1e15, *bad):
        assert metric.illegal(np.array([0.5, value])), value
    good = {"probability": (0.0, 1.0), "nonnegative": (-0.99, 1e15)}.get(metric.takes, (-1e15, 1e15))
    for value in good:
        assert metric.illegal(np.array([0.5, value])) is None, value


def test_the_page_names_the_scripts_that_differ_from_the_text() -> None:
    table = re.findall(r"^\| `([\w-]+)` \| `([^`]+)` \| `([^`]+)` \|$", PAGE, re.MULTILINE)
    assert set(table) == {
        (each.name, each.metric, each.published)
        for each in competitions().values()
        if each.published != each.metric
    }


def test_qwk_goes_by_values_and_not_by_positions() -> None:
    truth, guess = np.array([1, 2, 10, 1, 2, 10]), np.array([1, 10, 10, 1, 2, 2])

    def both(a: Any, b: Any) -> tuple[float, float]:
        ours = evaluate("qwk", a.astype(str).astype(object), b.astype(str).astype(object))
        return ours, float(cohen_kappa_score(a, b, weights="quadratic"))

    with_gaps = both(truth, guess)
    without = both(*(np.searchsorted([1, 2, 10], each) for each in (truth, guess)))
    assert with_gaps == (pytest.approx(0.3425, abs=1e-4), pytest.approx(0.75))
    assert without[0] == pytest.approx(without[1])
    assert "the squared difference of the values" in PAGE


def test_the_costs_of_a_hard_wrong_row_are_those_on_the_page() -> None:
    truth, pred = np.array([1.0]), np.array([0.0])
    assert f"{METRICS['log_loss'].function(truth, pred):.2f}" == "36.04"
    assert "costs 36.04" in PAGE
    assert f"{-np.log(1e-15):.2f}" == "34.54"
