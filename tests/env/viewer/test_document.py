"""What the page is told about an episode: time, threads, blame and rows."""

from __future__ import annotations

import json
import math
from pathlib import Path

import gymnasium as gym
from hypothesis import given
from hypothesis import strategies as st

import debate
from mappa_env import team_env
from mappa_env.trace import Recorded, TraceStore
from mappa_env.types import FileChange, Outcome, Task, ToolResult, Trajectory
from mappa_env.viewer.blame import blame
from mappa_env.viewer.collection import Collection
from mappa_env.viewer.columns import columns
from mappa_env.viewer.plain import to_json
from mappa_env.viewer.threads import Thread, threads
from recorded import recorded


def wrote(*paths: str, deleted: tuple[str, ...] = ()) -> ToolResult:
    return ToolResult(
        "ok",
        0,
        "",
        "",
        files=(
            *(FileChange(path, "created", 1, "") for path in paths),
            *(FileChange(path, "deleted", 0, "") for path in deleted),
        ),
    )


def test_threads_lead_from_the_last_writer_to_those_who_name_the_file() -> None:
    actions = [
        recorded("a_0", tool=wrote("x.csv", "unused.csv"), code="write"),
        recorded("b_0", code="open('x.csv'); open('data/x.csv'); x.csv_old", tool=wrote("x.csv")),
        recorded("c_0", code="read('x.csv')", tool=wrote(deleted=("x.csv",))),
        recorded("d_0", code="read('x.csv')"),
    ]
    assert threads(actions) == [Thread("x.csv", 0, (1,)), Thread("x.csv", 1, (2,))]


def test_a_name_inside_another_name_is_no_thread() -> None:
    for code in ("open('data_x.csv')", "open('x.csv2')", "open('a/my-x.csv')", "x.csv-old", ""):
        actions = [recorded("a_0", tool=wrote("x.csv")), recorded("b_0", code=code)]
        assert threads(actions) == [], code
    assert threads([recorded("a_0", tool=wrote("(a+b)*.csv")), recorded("b_0", code="'(a+b)*.csv'")])


def test_a_debate_has_parallel_turns_in_one_column(tmp_path: Path) -> None:
    env = gym.make(debate_id(tmp_path), record=str(tmp_path / "debate.jsonl"), **debate.OPTIONS)
    env.reset(seed=0)
    for text in debate.DISAGREED:
        env.step(text)
    env.close()
    page = json.loads(Collection(tmp_path / "debate.jsonl").episode(0))
    assert [(a["agent"], a["turn"]) for a in page["actions"]] == debate.TURNS
    assert [a["column"] for a in page["actions"]] == [0, 0, 1, 1, 2, 2, 3, 4, 5, 6]
    assert [name for name, _ in page["team"]] == list(debate.AGENTS)
    assert page["blame"]["found"]["failed"] is True
    walk = [link["action"] for link in page["blame"]["found"]["walk"]]
    assert walk[0] == 9
    last = page["actions"][8]  # pro_0 returns: it has seen its own three rounds
    assert last["known"] == 6
    assert len(last["messages"]) == 7


def debate_id(folder: Path) -> str:
    import mappa_env

    card = debate.write_debate(folder / "card") / "card.yaml"
    card.write_text(card.read_text().replace("id: Debate-v0", "id: ViewedDebate-v0"))
    return mappa_env.register_card(card.parent)


def test_parallel_segments_of_several_actions_stand_side_by_side() -> None:
    agents = [("a_0", False), ("a_0", True), ("b_0", True), ("c_0", True)]
    actions = tuple(recorded(agent, last_turn=last) for agent, last in agents)
    card = {"order": [{"repeat": {"steps": [{"parallel": {"agents": ["a_0", "b_0"]}}], "times": 2}}]}
    trajectory = Trajectory("x", Task("t", "", "exact_match"), 0, actions, None)
    assert columns(Recorded("k", trajectory, card=card)) == [0, 1, 0, 2]
    assert columns(Recorded("k", trajectory)) == [0, 1, 2, 3]


def test_a_failure_is_traced_with_the_registered_card_and_only_with_it() -> None:
    env = gym.make("mappa/MathChat-v0", sandbox="calculator")
    env.reset(seed=1)
    for text in ("plan: 6 * 7", "```python\nprint(41)\n```", "result: 41", "answer: \\boxed{0}"):
        env.step(text)
    trajectory = team_env(env).trajectory
    env.close()
    found = blame(trajectory).found
    assert found is not None
    assert found.failed
    assert found.walk
    elsewhere = Trajectory("../etc", trajectory.task, 0, trajectory.actions, trajectory.outcome)
    assert blame(elsewhere).why_not == "the card of ../etc is not known here; name it with --card"
    foreign = Trajectory("mappa/MathChat-v0", trajectory.task, 0, (recorded("x_9"),), trajectory.outcome)
    assert blame(foreign).why_not == "the agents of the record are not those of the card"


def test_seeds_and_numbers_survive_the_browser(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "t.jsonl", about={"phase": "train", "step": 3})
    task = Task("t", "", "exact_match")
    outcome = Outcome(0.5, False, "ok", "", {"nothing": math.nan})
    store.append(Trajectory("x", task, 2**63 - 25, (recorded(),), outcome))
    store.close()
    collection = Collection(tmp_path / "t.jsonl")
    page = json.loads(collection.episode(0))
    assert page["seed"] == "9223372036854775783"
    assert (page["phase"], page["training_step"]) == ("train", 3)
    assert page["outcome"]["metrics"] == {"nothing": None}
    assert json.loads(collection.changes(0))["rows"][0][7] == "9223372036854775783"


def test_a_trace_without_a_word_about_its_stage_is_named_by_its_file(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "after.jsonl")
    store.append(Trajectory("x", Task("t", "", "exact_match"), 0, (recorded(),), None))
    store.close()
    page = json.loads(Collection(tmp_path).episode(0))
    assert (page["phase"], page["training_step"], page["outcome"]) == ("after", None, None)


@given(st.dictionaries(st.text(), st.none() | st.floats() | st.integers() | st.lists(st.text())))
def test_json_cannot_end_a_script_element_and_says_the_same(value: object) -> None:
    text = to_json(value)
    assert text.isascii()
    assert not {"<", ">", "&"}.intersection(text)
    if "nan" not in repr(value) and "inf" not in repr(value):
        assert json.loads(text) == value
