"""Generated problems: exact, deterministic, disjoint, cheap to list."""

from __future__ import annotations

import math
import re

import pytest

from mappa_env.data import load_tasks
from mappa_env.data.arithmetic import FAMILIES, split_of
from mappa_env.errors import OptionError, UnknownTaskError
from mappa_env.grading.expression import safe_value

NUMBER = re.compile(r"-?\d+")


def every(split: str, per_family: int = 60):
    tasks = load_tasks("arithmetic", split, {"train_size": per_family, "eval_size": per_family})
    return [tasks.get(task_id) for task_id in tasks.ids]


@pytest.mark.parametrize("split", ["train", "eval"])
def test_answers_are_exact_and_misconceptions_are_wrong(split):
    for task in every(split):
        answer = int(task.truth["answer"])
        assert safe_value(task.meta["expr"]) == answer, task
        assert safe_value(task.meta["misconception"]) not in (None, answer), task
        assert eval(task.meta["expr"], dict(vars(math))) == answer  # noqa: S307 - our own text
        assert len(task.truth["answer"].lstrip("-")) <= 7
        assert split_of(task.compact) == task.split == split


def test_answers_hold_in_the_problem_itself():
    """Checks the answer from the short text alone, without the generator's expression."""
    checked = set()
    for task in every("train"):
        answer, text = int(task.truth["answer"]), task.compact
        numbers = [int(n) for n in NUMBER.findall(text.replace("x^2", "x"))]
        if task.topic == "linear":
            left, right = (side.removeprefix("solve ") for side in text.split("="))
            assert value_at(left, answer) == value_at(right, answer)
        elif task.topic == "quadratic":
            roots = [x for x in range(-60, 120) if value_at(text.split(" of ")[1].removesuffix("=0"), x) == 0]
            assert answer == (max(roots) if "larger" in text else min(roots))
        elif task.topic == "counting" and "multiples" in text:
            k, start, stop = numbers if len(numbers) == 3 else (numbers[0], 1, numbers[1])
            assert answer == sum(n % k == 0 for n in range(start, stop + 1))
        elif task.topic == "number_theory" and "digit" in text:
            assert answer == sum(map(int, str(numbers[0])))
        elif task.topic == "number_theory":
            assert answer == math.prod(e + 1 for e in numbers[1::2])
        elif task.topic == "modular":
            dividend, modulus = text.removesuffix("?").split(" mod ")
            assert answer == value_at(dividend, 0) % int(modulus)
        else:
            continue
        checked.add(task.topic)
    assert len(checked) == 5


def value_at(text: str, x: int) -> int:
    value = safe_value(re.sub(r"(\d*)x", lambda m: f"{m[1] or 1}*({x})", text).replace("^", "**"))
    assert isinstance(value, int)
    return value


def test_splits_never_overlap_and_all_levels_and_families_come():
    train, held_out = every("train", 200), every("eval", 200)
    assert not {t.compact for t in train} & {t.compact for t in held_out}
    assert not {t.prompt for t in train} & {t.prompt for t in held_out}
    for tasks in (train, held_out):
        assert {(t.topic, t.meta["level"]) for t in tasks} == {(f, lv) for f in FAMILIES for lv in (1, 2, 3)}
    assert len(FAMILIES) >= 8


def test_the_same_id_is_the_same_task_and_seeds_differ():
    first, again = load_tasks("arithmetic", "train"), load_tasks("arithmetic", "train", {"eval_size": 1})
    other = load_tasks("arithmetic", "train", {"seed": 1})
    ids = first.ids[:90]
    assert [first.get(i) for i in ids] == [again.get(i) for i in reversed(ids)][::-1]
    assert [first.get(i).compact for i in ids] != [other.get(i).compact for i in ids]


def test_options_select_families_levels_and_sizes():
    tasks = load_tasks("arithmetic", "eval", {"families": ["linear"], "levels": [2], "eval_size": 7})
    assert tasks.ids == tuple(f"eval-linear-{i:05d}" for i in range(7))
    assert {tasks.get(i).meta["level"] for i in tasks.ids} == {2}
    assert len(load_tasks("arithmetic", "train").ids) == 4096 * len(FAMILIES)


@pytest.mark.parametrize(
    ("split", "options", "words"),
    [
        ("trian", {}, "Did you mean 'train'"),
        ("train", {"families": ["liner"]}, "Did you mean 'linear'"),
        ("train", {"levels": [4]}, "[4]"),
        ("train", {"train_size": 0}, "0"),
        ("train", {"sizes": 3}, "sizes"),
    ],
)
def test_wrong_options_are_named(split, options, words):
    with pytest.raises(OptionError, match=re.escape(words)):
        load_tasks("arithmetic", split, options)


@pytest.mark.parametrize(
    "task_id", ["train-linear-04096", "train-linear-0001", "eval-linear-00001", "train-x-00001", "", "\x00"]
)
def test_unknown_ids_are_refused(task_id):
    with pytest.raises(UnknownTaskError, match="unknown task id"):
        load_tasks("arithmetic", "train").get(task_id)
