"""Generated and real tabular tasks: reproducible, disjoint between splits, in DSBench's layout."""

from __future__ import annotations

import csv
import io
import pickle
import subprocess
import sys

import pytest

from mappa_env.data.tabular import SOURCES, TabularTasks, candidates, load
from mappa_env.data.tabular.calibrate import LEAST, strength
from mappa_env.data.tabular.instance import build
from mappa_env.data.tabular.names import names_for
from mappa_env.data.tabular.weak import WEAK
from mappa_env.errors import OptionError, UnknownTaskError
from mappa_env.grading.metrics import METRICS
from mappa_env.types import Task

SPLITS = ("train", "eval")
WORDS = ("train", "validation", "eval")


def rows(task: Task, name: str) -> list[dict[str, str]]:
    content = task.files[name]
    assert isinstance(content, bytes)
    return list(csv.DictReader(io.StringIO(content.decode())))


@pytest.fixture(scope="module")
def everything() -> dict[str, list[Task]]:
    return {split: [load(split).get(i) for i in load(split).ids] for split in SPLITS}


def test_sizes_and_kinds(everything: dict[str, list[Task]]) -> None:
    assert (len(everything["train"]), len(everything["eval"])) == (342, 157)
    for tasks in everything.values():
        real = sum(task.meta["real"] for task in tasks)
        assert real > len(tasks) / 2
        assert {task.family for task in tasks} == {"classification", "regression"}
        assert 0.35 < sum(task.family == "regression" for task in tasks) / len(tasks) < 0.5
    assert {task.metric for task in everything["eval"]} <= {task.metric for task in everything["train"]}


def test_every_task_has_the_layout_it_says(everything: dict[str, list[Task]]) -> None:
    for task in [*everything["train"], *everything["eval"]]:
        ids, target, columns = task.meta["id"], task.meta["target"], task.meta["columns"]
        train, test, sample = (rows(task, f"{n}.csv") for n in ("train", "test", "sample_submission"))
        features = [*columns["num"], *columns["cat"]]
        assert sorted(train[0]) == sorted([ids, target, *features])
        assert sorted(test[0]) == sorted([ids, *features])
        assert list(sample[0]) == [ids, target]
        assert 3 <= len(features) <= 8
        assert 75 <= len(train) <= 200
        assert 36 <= len(test) <= 80
        assert [row[ids] for row in test] == [row[ids] for row in sample]
        keys = [row[ids] for row in (*train, *test)]
        assert len(set(keys)) == len(keys)
        holes = {name for row in train for name in features if row[name] == ""}
        assert holes == set(columns["missing"])
        for name in columns["cat"]:
            assert all(row[name].isalpha() for row in train if row[name])
        answers = list(csv.DictReader(io.StringIO(task.truth["answers_csv"].decode())))
        assert [row[ids] for row in answers] == [row[ids] for row in test]
        assert all(row[target] for row in answers)
        labels = task.truth["labels"]
        assert (labels is None) == (METRICS[task.metric].takes != "label")
        assert f"id: '{ids}' target: '{target}'" in task.compact
        assert f"`{ids},{target}`" in task.prompt


def test_no_answer_is_public(everything: dict[str, list[Task]]) -> None:
    for task in everything["eval"]:
        hidden = task.truth["answers_csv"]
        assert all(content != hidden for content in task.files.values())
        assert task.meta["target"] not in rows(task, "test.csv")[0]
        assert "answers" not in repr(task)


def test_splits_share_no_names_and_no_rows_of_real_tables(everything: dict[str, list[Task]]) -> None:
    for kind in ("classification", "regression"):
        train, held = names_for("train", kind), names_for("eval", kind)  # type: ignore[arg-type]
        for a, b in zip(train, held, strict=True):
            assert a
            assert b
            assert not set(a) & set(b)
    from mappa_env.data.tabular.sources import _rows

    for name in ("breast_cancer", "diabetes", "digits"):
        one, other = ({row.tobytes() for row in _rows(name, split)[0]} for split in SPLITS)
        assert len(one) > len(other) > 100
        assert not one & other
    sources = {split: {task.meta["dataset"] for task in tasks} for split, tasks in everything.items()}
    assert sources["eval"] - sources["train"] == {"wine", "cellar"}
    assert sources["train"] - sources["eval"] == {"iris", "petals"}


def test_names_of_two_words_share_words_and_no_pair() -> None:
    for kind in ("classification", "regression"):
        pools = {split: names_for(f"words-{split}", kind) for split in WORDS}  # type: ignore[arg-type]
        for field in ("ids", "targets"):
            names = [set(getattr(pools[split], field)) for split in WORDS]
            assert tuple(map(len, names)) == (672, 48, 48)
            assert not names[0] & names[1] | names[0] & names[2] | names[1] & names[2]
            words = [{word for name in some for word in name.split(" ")} for some in names]
            assert words[0] == words[1] == words[2]
        for field in ("numbers", "texts"):
            assert not set(getattr(pools["train"], field)) & set(getattr(pools["eval"], field))


def test_variants_are_the_same_table_under_other_names() -> None:
    one, six = load("train", names="words"), load("train", names="words", variants=6)
    assert six.ids[: len(one.ids)] == one.ids
    assert len(set(six.ids)) == 6 * len(one.ids)
    first, third = six.get("train-churn-001"), six.get("train-churn-001c")
    assert third.id == "train-churn-001c"
    assert (first.meta["id"], first.meta["target"]) != (third.meta["id"], third.meta["target"])
    assert first.truth["reference"] == third.truth["reference"]
    content = [task.files["train.csv"].split(b"\n", 1)[1] for task in (first, third)]  # type: ignore[union-attr]
    assert content[0] == content[1]
    alone = build(SOURCES["churn"], "train", 1, "words-train", 2)
    assert alone.truth["reference"] == pytest.approx(first.truth["reference"])
    assert load("eval", variants=6).ids == load("eval").ids
    for wrong in (0, 27):
        with pytest.raises(OptionError, match="variants"):
            load("train", variants=wrong)


def test_validation_draws_other_tasks_from_the_rows_of_training() -> None:
    from mappa_env.data.tabular.sources import _rows

    validation = load("validation", names="words")
    assert len(validation.ids) == 84
    tasks = [validation.get(task_id) for task_id in validation.ids]
    assert {task.meta["dataset"] for task in tasks} <= {i.split("-")[1] for i in load("train").ids}
    held_out = set(names_for("words-eval", "classification").ids)
    assert not {task.meta["id"] for task in tasks} & held_out
    for name in ("breast_cancer", "diabetes", "digits"):
        known = {row.tobytes() for row in _rows(name, "train")[0]}
        assert {row.tobytes() for row in _rows(name, "validation")[0]} == known
    assert not WEAK & set(validation.ids)


def test_the_same_id_is_the_same_task_in_every_process() -> None:
    script = (
        "from mappa_env.data.tabular import load; import hashlib;"
        "t = load('eval').get('eval-churn-003');"
        "print(hashlib.sha256(t.files['train.csv'] + t.truth['answers_csv'] + t.prompt.encode()).hexdigest())"
    )
    out = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout for _ in "ab"
    ]
    assert len(out[0].strip()) == 64
    assert out[0] == out[1]


@pytest.mark.parametrize(
    "task_id", ["train-cancer-001", "train-prices-012", "train-churn-004", "train-sensor-001"]
)
def test_the_reference_beats_the_constant_and_is_kept(task_id: str) -> None:
    task = load("train").get(task_id)
    assert strength(task) >= LEAST
    assert task.truth["reference"] is task.truth["reference"]
    assert set(task.truth) == {"answers_csv", "target", "id", "labels", "range", "constant", "reference"}
    twin = pickle.loads(pickle.dumps(task))  # noqa: S301  (our own bytes)
    assert twin.truth["reference"] == task.truth["reference"]


def test_weak_tasks_are_weak_and_left_out() -> None:
    known = {task_id for split in WORDS for task_id in candidates(split)}
    assert known > WEAK
    assert not WEAK & set(load("train").ids)
    for task_id in sorted(WEAK)[:: len(WEAK) // 3]:
        split, name, index = task_id.split("-")
        every = TabularTasks(split, candidates(split), "train")
        assert strength(every.get(task_id)) < LEAST, (name, index)


def test_a_head_of_the_ids_is_a_mixture() -> None:
    head = load("train", size=40).ids
    assert len(head) == 40
    assert len({task_id.split("-")[1] for task_id in head}) == len(
        [s for s in SOURCES.values() if s.counts[0]]
    )


def test_options_and_ids_are_checked() -> None:
    assert {i.split("-")[1] for i in load("eval", sources=["wine"]).ids} == {"wine"}
    shared, own = load("eval", names="shared"), load("eval")
    assert shared.ids == own.ids
    a, b = shared.get(own.ids[0]), own.get(own.ids[0])
    assert a.meta["id"] != b.meta["id"]
    assert a.truth["constant"] == b.truth["constant"]
    with pytest.raises(UnknownTaskError, match="train-iris-001"):
        load("train").get("train-iris-0001")
    for options in ({"sources": ["wines"]}, {"names": "both"}, {"size": 0}, {"sources": ["iris"]}):
        with pytest.raises(OptionError):
            load("eval", **options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="train"):
        load("trian")
