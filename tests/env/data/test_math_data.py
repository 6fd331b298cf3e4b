"""Contest files, a card's own tasks, the store and the leak check."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from mappa_env.cards import read_card
from mappa_env.data import load_tasks
from mappa_env.data import store as store_module
from mappa_env.data.adding import add, verify
from mappa_env.data.leaks import check_disjoint, overlap
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
    (added,) = add("aime", pool, drop_overlap=True)
    assert (added.tasks, len(added.left_out)) == (915, 18)
    assert "row 868: aime-2022-I-8 is in the other split" in str(added.left_out[0])
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
    (added,) = add("amc", path)
    assert (added.tasks, added.path, data_root()) == (2, store / "amc" / "train.json", store)
    direct, again = load_tasks("amc", str(path)), load_tasks("amc", "train")
    assert list(direct.ids) == list(again.ids) == ["amc-t1", "amc-2001-II-3"]
    assert [direct.get(i).truth for i in direct.ids] == [again.get(i).truth for i in again.ids]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "row 1: expected an object"),
        ("[{}]", "row 1: 'prompt' must be a string"),
        ('{"prompt": "x"}', "line 1: 'answer' must be a string or a number"),
        ('{"prompt": "x", "answer": true}', "found True"),
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


MANY = [
    b'{"prompt": "What is 1 + 1?", "answer": 2}',
    b'{"prompt": "What is \xff?", "answer": 1}',
    b'{"prompt": "What is 1 + 1 ?", "answer": "2"}',
    b'{"prompt": "What is 1 + 2?", "answer": 3}',
    b'{"prompt": "what is $1 + 2$?", "answer": 4}',
    b'{"prompt": "What is 2 + 2?", "answer": " "}',
    b'{"prompt": "\\ud800", "answer": 1}',
    b'{"prompt": "a\\u0000b", "answer": 1}',
    b'{"prompt": "What is 1/0?", "answer": NaN}',
    b'{"prompt": "What is 10^3?", "answer": 1000}',
    b'{"prompt": "What is 10^4?", "answer": 10000, "answer_type": "expression"}',
    b'{"prompt": "What is 10^5?", "answer": 5, "answer_type": "expresion"}',
    b'{"prompt": "x", "id": "a", "answer": 1}',
    b'{"prompt": "y", "id": "a", "answer": 1}',
    b"[" * 100_000,
    b'{"prompt"',
]
REASONS = {
    2: "is not UTF-8 text: invalid start byte at byte 20",
    3: "repeats FILE, line 1",
    5: "repeats FILE, line 4, but with the answer '4' instead of '3'",
    4: "its repetitions have other answers",
    6: "'answer' is empty",
    7: "'prompt' is not Unicode text",
    8: "'prompt' has a NUL character at 1",
    9: "'answer' must be a finite number, found nan",
    10: "the answer '1000' is not an integer from 0 to 999; if it is right, give the row",
    12: "answer_type='expresion' is unknown; use one of ('integer', 'expression'). Did you mean",
    14: "the id 'aime-a' occurs twice",
    15: "is not valid JSON",
    16: "is not valid JSON",
}


def test_unusable_rows_are_left_out_with_place_and_reason(tmp_path):
    path = tmp_path / "many.json"
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(MANY) + b"\r\n")
    (added,) = add("aime", path)
    assert (added.tasks, len(added.left_out)) == (len(MANY) - len(REASONS), len(REASONS))
    for line, reason in REASONS.items():
        where = f"{path}, line {line}"
        (found,) = [each.reason for each in added.left_out if each.where == where]
        assert found.startswith(reason.replace("FILE", str(path))), (line, found)
        assert len(str(found)) < 1000
    assert store_module.recorded() == [added]
    assert list(load_tasks("aime", "train").ids) == ["aime-many-000", "aime-many-010", "aime-a"]
    with pytest.raises(DataError, match=r"line 2: is not UTF-8 text.* \(and 11 more rows\)"):
        load_tasks("aime", str(path))


SPELLINGS = [
    *(("080", "80"), ("80.0", 80), ("1,000", "1000"), ("0.5", r"\frac12"), ("2/4", "0.5"), ("twelve", "12")),
    *(("x+1", "1+x"), (r"\sqrt{12}", r"2\sqrt3"), ("1,2", "2,1"), ("(C)", "C"), ("12", "7+5")),
    *(("80 or 81", "081 or 80 (both were accepted)"), ("2/4 or 3", "3 or 1/2")),
]


@pytest.mark.parametrize(("one", "other"), SPELLINGS)
@pytest.mark.parametrize("name", ["amc", "math"])
def test_one_answer_in_two_spellings_is_no_contradiction(tmp_path, name, one, other):
    rows = [row(1, answer=answer, problem="What is 1 + 1?") for answer in (one, other, one)]
    (added,) = add(name, write(tmp_path / "own.jsonl", rows))
    assert added.tasks == 1
    assert [each.reason.partition(" ")[0] for each in added.left_out] == ["repeats"] * 2
    assert all(each.repeated for each in added.left_out)
    tasks = load_tasks(name, "train")
    assert tasks.get(tasks.ids[0]).truth["answer"] == one
    assert len(load_tasks(name, str(tmp_path / "own.jsonl")).ids) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [("80", "81"), ("x+1", "x+2"), ("80", "80 or 81"), ("81 or 82", "80 or 81"), ("6 m", "6 km"), ("A", "B")],
)
def test_two_answers_to_one_problem_contradict_each_other(tmp_path, one, other):
    rows = [row(1, answer=one), row(1, answer=other), row(2)]
    (added,) = add("amc", write(tmp_path / "own.jsonl", rows))
    assert (added.tasks, [each.repeated for each in added.left_out]) == (1, [False, False])
    assert f"but with the answer {other!r} instead of {one!r}" in str(added.left_out)


def test_a_file_of_unusable_rows_changes_nothing(tmp_path, store):
    good = write(tmp_path / "good.jsonl", [row(1)])
    add("amc", good)
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    with pytest.raises(DataError, match=r"has no tasks.*'answer' must be"):
        add("amc", write(tmp_path / "bad.jsonl", [row(2, answer=None)]))
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tasks": 1}', '{"path": 1, "left_out": [{"x": 1}]}'])
def test_a_broken_record_names_itself(text, store):
    record = store / "aime" / "train.added.json"
    record.parent.mkdir(parents=True)
    record.write_text(text)
    with pytest.raises(DataError, match=r"train\.added\.json is not a record of added data"):
        store_module.recorded()


def problem(n: int, **more) -> dict:
    return {
        "problem": f"What is {n} + {n}?",
        "level": "Level 3",
        "type": "Prealgebra",
        "solution": rf"Not \boxed{{1}}, but $\boxed{{{2 * n}}}$.",
    } | more


def math_copy(folder: Path) -> Path:
    """A copy in the layout of MATH: one held-out problem is also a training problem."""
    for at, name in enumerate(
        ["train/algebra/1", "train/algebra/2", "train/geometry/10", "train/geometry/9"]
    ):
        write(folder / f"{name}.json", [problem(at)])
    write(folder / "train" / "geometry" / "11.json", [problem(20, solution="It is 40.")])
    write(folder / "train" / "__MACOSX" / "._9.json", [problem(21)])
    write(
        folder / "test" / "algebra" / "1.json",
        [
            problem(3),
        ],
    )
    write(
        folder / "test" / "algebra" / "2.json",
        [problem(30, solution=r"$\boxed 7$, so \fbox{60}.", level="Level ?")],
    )
    return folder


@pytest.mark.parametrize(
    ("solution", "said"),
    [
        (r"So it is $\boxed{\{1, 2}$.", r"the braces after the solution's \boxed do not match; it ends 'So"),
        (r"So it is $\boxed{4$.", r"the braces after the solution's \boxed do not match; it ends"),
        (r"So it is $4$; nothing is boxed.", r"the solution has no \boxed{} with the answer; it ends"),
    ],
)
def test_what_is_wrong_with_a_box_is_said(tmp_path, solution, said):
    copy = math_copy(tmp_path / "MATH")
    write(copy / "train" / "algebra" / "3.json", [problem(41, solution=solution)])
    (left_out,) = (each for each in add("math", copy / "train")[0].left_out if "algebra/3.json" in each.where)
    assert said in left_out.reason


def test_a_copy_of_math_is_added_whole(tmp_path):
    copy = math_copy(tmp_path / "MATH")
    with pytest.raises(DataError, match="1 of 4 training tasks are also held out"):
        add("math", copy)
    with pytest.raises(DataMissingError):
        load_tasks("math", "train")
    train, held_out = add("math", copy, drop_overlap=True)
    assert (train.split, train.tasks, held_out.split, held_out.tasks) == ("train", 3, "eval", 2)
    assert [str(each).partition("MATH/")[2] for each in train.left_out] == [
        r"train/geometry/11.json: the solution has no \boxed{} with the answer; it ends 'It is 40.'.",
        "train/geometry/9.json: math-geometry-9 is in the other split, as math-algebra-1",
    ]
    tasks = load_tasks("math", "train")
    assert list(tasks.ids) == ["math-algebra-1", "math-algebra-2", "math-geometry-10"]
    task = tasks.get("math-geometry-10")
    assert (task.topic, dict(task.meta), dict(task.truth)) == ("Prealgebra", {"level": 3}, {"answer": "4"})
    assert "boxed" not in task.prompt
    last = load_tasks("math", "eval").get("math-algebra-2")
    assert (dict(last.meta), dict(last.truth)) == ({}, {"answer": "60"})
    assert not any(problems for _, problems in verify())


def test_rows_of_math_500_are_read(tmp_path):
    rows = [
        problem(
            n, answer=str(2 * n), subject="Algebra", level=2, unique_id=f"test/algebra/{n}.json", solution=""
        )
        for n in range(3)
    ]
    for row in rows:
        del row["type"]
    (added,) = add("math", write(tmp_path / "test.jsonl", rows), split="eval")
    task = load_tasks("math", "eval").get("math-test-algebra-2")
    assert (added.tasks, task.topic, dict(task.meta)) == (3, "Algebra", {"level": 2})
    with pytest.raises(DataMissingError, match="folder per subject"):
        add("math", tmp_path)


@pytest.mark.parametrize("name", ["aime", "math"])
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"id": "a\ud800", "unique_id": "a\ud800"}, "'id' is not Unicode"),
        ({"id": "a\0", "unique_id": "a\0"}, "'id' has a NUL"),
        ({"type": "a\ud800", "year": "\ud800", "problem_number": 1}, "'type' is not Unicode|'year' must be"),
        ({"type": "a\0", "year": {"a": 1}, "problem_number": 1}, "'type' has a NUL|'year' must be"),
        ({"type": "a\0", "year": 2024, "problem_number": "\ud800"}, "'type' has a NUL|'(number|id)' is not"),
    ],
)
def test_a_text_that_no_file_can_hold_leaves_out_its_row(tmp_path, store, name, more, reason):
    rows = [problem(n, **(more if n == 1 else {})) | {"prompt": f"p {n}", "answer": str(n)} for n in range(3)]
    path = write(tmp_path / "own.jsonl", rows)
    (added,) = add(name, path)
    (left_out,) = added.left_out
    assert (added.tasks, left_out.where) == (2, f"{path}, line 2")
    assert re.search(reason, left_out.reason), left_out
    assert not list(store.rglob("*.part"))
    with pytest.raises(DataError, match=rf"line 2: ({reason})"):
        load_tasks(name, str(path))
    own = [{**each, "id": f"t{n}"} if n != 1 else {"id": "t", **each} for n, each in enumerate(rows)]
    with pytest.raises(DataError, match="row 2: "):
        load_tasks("jsonl", str(write(tmp_path / "jsonl.jsonl", own)))


def test_a_write_that_fails_leaves_no_file(store):
    with pytest.raises(UnicodeEncodeError):
        store_module.write(store / "own.json", "a\ud800")
    assert not list(store.iterdir())


@pytest.mark.parametrize("name", ["aime", "amc", "math", "dsbench"])
def test_a_pipe_is_refused(tmp_path, name):
    os.mkfifo(pipe := tmp_path / "pipe")
    with pytest.raises(
        (DataError, DataMissingError), match=r"is a named pipe, not a file|'data_resplit' is missing"
    ):
        add(name, pipe)


def test_contest_keys_have_one_spelling(tmp_path):
    held = {"year": 2024.0, "part": "i", "problem_number": 3.0, "prompt": "Held out.", "answer": 1}
    add("aime", write(tmp_path / "eval.jsonl", [held]), split="eval")
    assert load_tasks("aime", "eval").ids == ("aime-2024-I-3",)
    for part in ("I", 1, "1", 1.0, " i"):
        own = held | {"year": "2024", "part": part, "problem_number": "3", "prompt": "Reworded."}
        with pytest.raises(DataError, match="also held out"):
            add("aime", write(tmp_path / "train.jsonl", [own]))
    other = held | {"part": "II", "prompt": "Another one."}
    assert add("aime", write(tmp_path / "train.jsonl", [other]))[0].tasks == 1


def test_golds_that_are_products_of_brackets_are_usable(tmp_path):
    golds = ["(x+9)(x-9)", r"\left(x+1\right)\left(x-1\right)", r"(\sqrt2)(\sqrt3)"]
    rows = [problem(n, answer=gold, unique_id=f"t{n}") for n, gold in enumerate(golds)]
    (added,) = add("math", write(tmp_path / "own.jsonl", rows))
    assert (added.tasks, added.left_out) == (3, ())


def test_verify_finds_what_changed_since(tmp_path, store):
    add("amc", write(tmp_path / "own.jsonl", [row(1), row(2)]))
    ((added, problems),) = verify("amc")
    assert (problems, list(added.problems())) == ([], [])
    path = store / "amc" / "train.json"
    text = path.read_text()
    path.write_text(text.replace('"4"', '"5"'))
    assert list(added.problems()) == []  # of the same size: only the digest differs
    assert [problem.partition(" has ")[0] for _, (problem,) in verify()] == [str(path)]
    path.unlink()
    assert [problem for _, (problem,) in verify()] == [f"{path}: No such file or directory"]


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
        with pytest.raises(DataMissingError, match=r"does not exist|is a folder"):
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
    check_disjoint(a, [task("e", "New", year=2001, part="II", number=4)], "")


def test_golds_that_the_grader_cannot_read_are_refused_at_loading(tmp_path):
    rows = [row(1, answer=r"\frac{1"), row(2, answer=r"\sqrt"), row(3, answer=r"\sqrt{3}"), row(4)]
    path = write(tmp_path / "own.jsonl", rows)
    (added,) = add("amc", path)
    assert added.tasks == 2
    assert [each.reason.partition(" cannot be graded: ")[2] for each in added.left_out] == [
        "it is empty or its braces do not match.",
        r"'\\sqrt' is not a mathematical expression",
    ]
    for loader in ("amc", "jsonl"):
        with pytest.raises(DataError, match="cannot be graded"):
            load_tasks(loader, str(path))
    other = write(tmp_path / "words.jsonl", [row(1, answer=r"C:\sqrt", metric="path")])
    assert load_tasks("jsonl", str(other)).ids == ("t1",)


@pytest.mark.parametrize("answer", ["x**2", "1/0", "((", "x+", "1..2", "3*", "5x+", r"\\sqrt", "2^", "f("])
def test_so_are_formulas_of_a_card_without_latex(tmp_path, answer):
    path = write(tmp_path / "own.jsonl", [row(1, answer=answer), row(2)])
    with pytest.raises(DataError, match=r"task 't1': .* cannot be graded: .* If it is no formula"):
        load_tasks("jsonl", str(path))
    write(path, [row(1, answer=answer, metric="text"), row(2)])
    assert load_tasks("jsonl", str(path)).ids == ("t1", "t2")


def test_words_numbers_and_readable_formulas_of_a_card_load(tmp_path):
    answers = [
        *("yes", "No solution.", "what?", "don't know", "é", "猫", "C++", "A+", "e.g.", "http://a.b", "x"),
        *("42", "-7", "3.5", "1/2", "50%", "$5", "10:30", "2024-01-05", "1,000", "(1, 2)", "[0, 1)", "1e5"),
        *("x^2+1", "2x", "x=3", "x > 1", "a/b", "3 apples", "5 km", "+", "...", 12, 2.5),
    ]
    path = write(tmp_path / "own.jsonl", [row(n, answer=answer) for n, answer in enumerate(answers)])
    assert len(load_tasks("jsonl", str(path)).ids) == len(answers)
