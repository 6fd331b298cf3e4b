"""Contest files, a card's own tasks, the store and the leak check."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mappa_env.cards import read_card
from mappa_env.data import load_tasks
from mappa_env.data.adding import add
from mappa_env.data.leaks import check_disjoint, normalise, overlap
from mappa_env.errors import DataError, DataMissingError, OptionError, UnknownTaskError
from mappa_env.places import data_root
from mappa_env.types import Task
from paths import DATA, REGISTRY


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("MAPPA_DATA", str(tmp_path / "store"))
    return tmp_path / "store"


def real(name: str) -> str:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"{path} is missing")
    return str(path)


def write(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def row(n: int, **more) -> dict:
    return {"id": f"t{n}", "prompt": f"What is {n} + {n}?", "answer": 2 * n, **more}


@pytest.mark.parametrize(
    ("loader", "file", "count", "first"),
    [
        ("aime", "AIME_1983_2024.json", 933, "aime-1983-1"),
        ("aime", "aime_2025.json", 30, "aime_2025-000"),
        ("aime", "aime_eval_32.json", 32, "aime-2022-I-10"),
        ("amc", "amc.json", 117, "amc-0"),
        ("arithmetic", "amc.json", 117, "math-0"),
    ],
)
def test_real_files_read_whole(loader, file, count, first):
    tasks = load_tasks(loader, real(file))
    assert (len(tasks.ids), tasks.ids[0]) == (count, first)
    task = tasks.get(first)
    assert (task.metric, task.family) == ("exact_match", "math")
    assert task.truth["answer"].isdigit()


def test_the_known_leak_is_found_and_can_be_left_out():
    pool, held_out = real("AIME_1983_2024.json"), real("aime_eval_32.json")
    rest = load_tasks("aime", pool, {"exclude": held_out})
    assert len(rest.ids) == 933 - 18  # 16 by text alone, two more by year, part and number
    assert len(load_tasks("aime", pool, {"exclude": real("aime_2025.json")}).ids) == 933
    add("aime", held_out, split="eval")
    with pytest.raises(DataError, match="18 of 933 training tasks are also held out"):
        add("aime", pool)
    assert add("aime", pool, drop_overlap=True).dropped == 18
    assert load_tasks("aime", "train").ids == rest.ids
    assert len(load_tasks("aime", "eval").ids) == 32


def test_a_store_that_leaks_is_refused_on_reading(store):
    write(store / "amc" / "train.json", [row(1), row(2)])
    write(store / "amc" / "eval.json", [row(2) | {"prompt": "what is $2+2$ ?"}])
    for split in ("train", "eval"):
        with pytest.raises(DataError, match="mappa-env data add amc PATH --drop-overlap"):
            load_tasks("amc", split)


@pytest.mark.parametrize(
    ("split", "command"), [("train", "data add aime PATH"), ("eval", "PATH --split eval")]
)
def test_missing_data_names_the_command(split, command):
    with pytest.raises(DataMissingError, match=command):
        load_tasks("aime", split)


def test_added_tasks_come_back_the_same(tmp_path, store):
    path = write(tmp_path / "own.jsonl", [row(1), row(2, year=2001, part="II", problem_number=3), row(1)])
    added = add("amc", path)
    assert (added.tasks, added.path, data_root()) == (2, store / "amc" / "train.json", store)
    direct, again = load_tasks("amc", str(path)), load_tasks("amc", "train")
    assert list(direct.ids) == list(again.ids) == ["amc-t1", "amc-2001-II-3"]
    assert [direct.get(i).truth for i in direct.ids] == [again.get(i).truth for i in again.ids]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "row 1: expected an object"),
        ("[{}]", "row 1: 'prompt' must be a string"),
        ('{"prompt": "x"}', "row 1: 'answer' must be a string or a number"),
        ('{"prompt": "x", "answer": true}', "found True"),
        ('{"prompt": "x", "answer": 1}\n{"prompt"', "line 2 is not valid JSON"),
        ("[", "not valid JSON"),
        ("", "no tasks"),
        ("[]", "no tasks"),
        ("\udcff", "not UTF-8"),
    ],
)
def test_malformed_files_name_the_place(tmp_path, text, words):
    path = tmp_path / "bad.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=words):
        load_tasks("aime", str(path))
    with pytest.raises(DataError, match=words):
        add("aime", path)


def test_unknown_names_are_refused_with_the_nearest(tmp_path):
    for call, words in [
        (lambda: load_tasks("aimee", "train"), "Did you mean 'aime'"),
        (lambda: load_tasks("aime", "trian"), "Did you mean 'train'"),
        (lambda: load_tasks("aime", "train", {"exclde": "x"}), "exclde"),
        (lambda: add("arithmetic", "x"), "takes no added data"),
        (lambda: add("aime", "x", split="test"), "'test'"),
    ]:
        with pytest.raises(OptionError, match=words):
            call()
    for missing in (str(tmp_path / "none.json"), str(tmp_path)):
        with pytest.raises(DataMissingError, match="does not exist or is a folder"):
            load_tasks("amc", missing)


def test_a_card_of_ones_own_reads_its_tasks(tmp_path):
    card = tmp_path / "mine"
    write(card / "tasks" / "train.jsonl", [row(1, compact="1+1?", topic="sums", expr="1+1"), row(2)])
    write(card / "tasks" / "eval.jsonl", [row(3)])
    (card / "card.yaml").write_text(
        f"extends: {os.path.relpath(REGISTRY / 'mathchat', tmp_path)}\nid: Mine-v0\ntitle: Mine\n"
        "tasks: {loader: jsonl}\ncoach: {}\n"
    )
    options = read_card(card).loader_options
    train = load_tasks("jsonl", "train", options)
    assert list(train.ids) == ["t1", "t2"]
    task = train.get("t1")
    assert (task.compact, task.topic, task.split) == ("1+1?", "sums", "train")
    assert (dict(task.truth), dict(task.meta)) == ({"answer": "2"}, {"expr": "1+1"})
    with pytest.raises(UnknownTaskError, match="Did you mean 't2'"):
        train.get("t22")
    write(card / "tasks" / "eval.jsonl", [row(2, id="other")])
    with pytest.raises(DataError, match="1 of 2 training tasks are also held out"):
        load_tasks("jsonl", "eval", options)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([row(1), row(1)], "'t1' occurs twice"),
        ([row(1, id=7)], "'id' must be a string"),
        ([row(1, id="")], "'id'"),
    ],
)
def test_own_tasks_need_ids(tmp_path, rows, words):
    with pytest.raises(DataError, match=words):
        load_tasks("jsonl", str(write(tmp_path / "x.jsonl", rows)))


def test_problems_are_compared_by_text_and_by_contest():
    def task(name: str, prompt: str, **meta) -> Task:
        return Task(name, prompt, "exact_match", meta=meta)

    a = [task("a", r"Find $\dfrac{1}{2} + x$ ."), task("b", "Other", year=2001, part="I", number=4)]
    b = [task("c", r"find \(\frac 1 2+x\)."), task("d", "Reworded", year=2001, part="I", number=4)]
    assert overlap(a, b) == [("a", "c"), ("b", "d")]
    assert normalise("x+1") == normalise("$x + 1$") != normalise("x+2")
    check_disjoint(a, [task("e", "New", year=2001, part="II", number=4)], "")
