"""How far a submission follows a model, whatever its scale or its labels are."""

from __future__ import annotations

import csv
import dataclasses
import io
from typing import Any

import numpy as np
import pytest

from mappa_env.data.tabular import load
from mappa_env.grading.following import follows
from mappa_env.types import Task

TRAIN = load("train")
TASKS = [TRAIN.get(each) for each in TRAIN.ids]
VALUES = next(task for task in TASKS if task.metric == "rmse")
SHARES = next(task for task in TASKS if task.metric == "roc_auc")
WORDS = next(task for task in TASKS if task.metric == "macro_f1" and not task.truth["labels"][0].isdigit())
RNG = np.random.default_rng(0)


def ids_of(task: Task) -> list[str]:
    rows = list(csv.DictReader(io.StringIO(task.files["test.csv"].decode())))
    return [row[task.truth["id"]] for row in rows]


def followed(task: Task, cells: Any, *, header: str = "", **model: Any) -> float | None:
    """Cells in the order of test.csv, submitted in another one, and a model that answers in that order."""
    rows = [f"{key},{cell}" for key, cell in zip(ids_of(task), cells, strict=True)][::-1]
    data = "\n".join([header or f"{task.truth['id']},{task.truth['target']}", *rows]).encode()
    return follows(task, data, {"model": {"n_predictions": len(rows), **model}})


NUMBERS = RNG.normal(size=len(ids_of(VALUES))).tolist()


def test_only_a_scale_of_unknown_direction_may_fall() -> None:
    falling = -3 * np.array(NUMBERS) + 1
    assert followed(VALUES, falling, predictions=NUMBERS) == 0
    assert followed(VALUES, falling, predictions=NUMBERS, undone=NUMBERS) == 0
    either = followed(VALUES, falling, predictions=NUMBERS, undone=NUMBERS, undone_falling=NUMBERS)
    assert either is not None
    assert either > 0.99


def test_what_differs_by_rounding_alone_is_not_told() -> None:
    nearly = 5 + 1e-12 * np.array(NUMBERS)
    assert followed(VALUES, nearly, predictions=NUMBERS) is None


@pytest.mark.parametrize("scale", [lambda p: p, np.exp, lambda p: 3 * p + 1, lambda p: np.round(p, 1)])
def test_numbers_follow_in_any_scale(scale: Any) -> None:
    found = followed(VALUES, scale(np.array(NUMBERS)), predictions=NUMBERS)
    assert found is not None
    assert found > 0.99


def test_other_numbers_do_not_follow() -> None:
    found = followed(VALUES, RNG.permutation(NUMBERS), predictions=NUMBERS)
    assert found is not None
    assert found < 0.5
    assert followed(VALUES, NUMBERS, predictions=[1.0] * len(NUMBERS)) == 0


def test_what_cannot_be_told() -> None:
    junk = RNG.permutation(NUMBERS).tolist()
    assert followed(VALUES, junk, predictions=NUMBERS, again={"predictions": NUMBERS[::-1]}) is None
    assert followed(VALUES, NUMBERS, predictions=NUMBERS, again={"predictions": NUMBERS[::-1]}) == 1
    assert followed(VALUES, [1] * len(NUMBERS), predictions=NUMBERS) is None
    assert followed(VALUES, ["x"] * len(NUMBERS), predictions=NUMBERS) is None
    assert followed(VALUES, NUMBERS, predictions=NUMBERS, n_predictions=3) is None
    assert followed(VALUES, NUMBERS, predictions=["nan", *NUMBERS[1:]]) is None
    assert followed(VALUES, NUMBERS, predictions=NUMBERS, header="a,b") is None


CODES = RNG.integers(0, len(WORDS.truth["labels"]), len(ids_of(WORDS)))
NAMED = [sorted(WORDS.truth["labels"])[code] for code in CODES]


def test_labels_follow_whatever_their_codes_are() -> None:
    for answers in (NAMED, CODES.tolist(), (7 - 2 * CODES).tolist(), [f"class {code}" for code in CODES]):
        assert followed(WORDS, NAMED, predictions=answers) == 1
        junk = followed(WORDS, RNG.permutation(NAMED), predictions=answers)
        assert junk is not None
        assert junk < 0.5
    shares = (np.eye(len(set(CODES)))[CODES] * 0.6 + 0.1).tolist()
    assert followed(WORDS, NAMED, predictions=shares) == 1
    numbers = (CODES + RNG.uniform(-0.4, 0.4, len(CODES))).tolist()
    assert followed(WORDS, NAMED, predictions=numbers) == 1
    assert followed(WORDS, NAMED, predictions=[NAMED[0]] * len(NAMED)) == 0


def test_one_label_by_chance_is_no_agreement() -> None:
    first, second = sorted(WORDS.truth["labels"])[:2]
    rare = [second if at % 20 == 3 else first for at in range(len(NAMED))]
    found = followed(WORDS, rare[1:] + rare[:1], predictions=rare)
    assert found is not None
    assert found < 0.5


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8])
def test_two_labels_follow_at_any_threshold(threshold: float) -> None:
    shares = RNG.uniform(size=len(NAMED))
    first, second = sorted(WORDS.truth["labels"])[:2]
    given = np.where(shares > threshold, second, first)
    answers = np.where(shares > 0.5, second, first).tolist()
    assert followed(WORDS, given, predictions=answers, probabilities=shares.tolist()) == 1


def test_probabilities_follow_as_ranks_or_as_labels() -> None:
    shares = RNG.uniform(size=len(ids_of(SHARES)))
    answers = np.where(shares > 0.5, "yes", "no").tolist()
    for given in (shares, 1 - shares, (shares > 0.5).astype(int), shares > 0.5):
        found = followed(SHARES, given, predictions=answers, probabilities=shares.tolist())
        assert found == 1
    junk = followed(SHARES, RNG.permutation(shares), predictions=answers, probabilities=shares.tolist())
    assert junk is not None
    assert junk < 0.5


def test_of_a_list_the_first_label_counts() -> None:
    ranked = dataclasses.replace(WORDS, metric="map@3")
    names = sorted(WORDS.truth["labels"])
    lists = [" ".join([name, *(each for each in names if each != name)]) for name in NAMED]
    assert followed(ranked, lists, predictions=NAMED) == 1
    assert followed(ranked, NAMED, predictions=lists) == 1
