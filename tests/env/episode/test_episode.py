"""The state machine: turns, prompts, the end of segments, and a missing sandbox."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import envs_registry
from mappa_env.cards import read_card
from mappa_env.episode.episode import Episode
from mappa_env.errors import EpisodeError, OptionError, UnknownTaskError
from mappa_env.types import Trajectory

MATHCHAT, DSBENCH = (read_card(envs_registry.ROOT / name) for name in ("mathchat", "dsbench"))
CODE = "```python\nprint(6)\n```"
NO_PYTHON = {"name": "process", "python": "/no/such/python"}
WRITES = """```python
import random, numpy
open('X_train.pkl', 'w').write(f'{random.random()} {numpy.random.rand()} {sorted(map(hash, "abc"))}')
print(list({'a', 'b', 'c', 'd'}))
```"""


@pytest.fixture
def episode() -> Iterator[Episode]:
    episode = Episode(MATHCHAT, sandbox="null")
    yield episode
    episode.close()


def play(texts: list[str], seed: int = 0, card: Any = MATHCHAT, **options: Any) -> Trajectory:
    episode = Episode(card, **options)
    episode.reset(seed=seed)
    try:
        for text in texts:
            episode.act(text)
        return episode.trajectory
    finally:
        episode.close()


def acted(episode: Episode, texts: list[str]) -> list[tuple[str | None, int]]:
    found = [(episode.agent, episode.turn)]
    for text in texts:
        episode.act(text)
        found.append((episode.agent, episode.turn))
    return found


def timeless(trajectory: Trajectory) -> Trajectory:
    """The trajectory without values that depend on time or load."""
    actions = []
    for action in trajectory.actions:
        if action.tool is not None:
            tool = dataclasses.replace(action.tool, wall_s=0.0, queued_s=0.0, cpu_s=0.0, peak_rss=0)
            action = dataclasses.replace(action, tool=tool)
        actions.append(action)
    return dataclasses.replace(trajectory, actions=tuple(actions))


# -- turns ------------------------------------------------------------------------------------------------


def test_a_segment_ends_without_a_tool_call(episode: Episode) -> None:
    episode.reset(seed=1)
    assert acted(episode, ["plan", "no code", "answer"]) == [
        ("solver_0", 0),
        ("coder_0", 0),
        ("verifier_0", 0),
        (None, 0),
    ]
    assert episode.over
    assert [action.last_turn for action in episode.actions] == [True, True, True]


def test_a_segment_ends_at_max_turns_whatever_is_written(episode: Episode) -> None:
    episode.reset(seed=1)
    assert acted(episode, [CODE, CODE, CODE, CODE]) == [
        ("solver_0", 0),
        ("coder_0", 0),
        ("coder_0", 1),
        ("verifier_0", 0),
        (None, 0),
    ]
    assert [action.tool is None for action in episode.actions] == [True, False, False, True]


def test_code_of_agents_without_tools_and_in_thinking_never_runs(tmp_path: Path) -> None:
    touch = f"```python\nopen({str(tmp_path / 'ran')!r}, 'w')\n```"
    play([touch, f"<think>{touch}</think>done", touch])
    play([f"{touch}</think>", f"<think>{touch}", "x"])
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=30, deadline=None)
@given(
    texts=st.lists(st.text(max_size=9) | st.sampled_from([CODE, "", "\ud800", "\0"]), min_size=4, max_size=4)
)
def test_any_texts_end_an_episode_in_three_or_four_actions(texts: list[str]) -> None:
    episode = Episode(MATHCHAT, sandbox="null")
    episode.reset(seed=3)
    taken = 0
    while not episode.over:
        record = episode.act(texts[taken])
        taken += 1
        assert record.reward_valid
        assert 0 <= record.reward <= 10
    assert taken in (3, 4)
    assert episode.outcome is not None


def test_out_of_order_use_is_refused(episode: Episode) -> None:
    assert episode.over
    with pytest.raises(EpisodeError, match="reset"):
        episode.act("x")
    with pytest.raises(EpisodeError, match="reset"):
        _ = episode.task
    with pytest.raises(UnknownTaskError):
        episode.reset(seed=0, task_id="no such task")
    episode.reset(seed=0)
    with pytest.raises(EpisodeError, match="over"):
        _ = episode.rewards
    for text in ("a", "b", "c"):
        episode.act(text)
    with pytest.raises(EpisodeError, match="over"):
        episode.act("d")
    assert len(episode.rewards) == 3
    episode.reset(seed=0)
    assert (episode.agent, episode.actions, episode.outcome) == ("solver_0", (), None)


@pytest.mark.parametrize(
    "options",
    [
        {"prompts": "ful"},
        {"coach_feedback": "on"},
        {"limits": {"wall": 1}},
        {"limits": {"wall_s": 0}},
        {"sandbox": "proces"},
        {"coach": "rubrik"},
        {"shaping": "none"},
    ],
)
def test_wrong_options_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(options)).removesuffix("s")):
        Episode(MATHCHAT, **options)


# -- what agents see --------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompts", ["full", "compact"])
def test_messages_extend_exactly_within_a_segment_and_start_again_after_it(prompts: str) -> None:
    episode = Episode(DSBENCH, sandbox="null", coach="off", prompts=prompts)
    episode.reset(seed=2)
    before: list[dict[str, str]] = []
    agent = ""
    while episode.agent is not None:
        messages = episode.messages()
        if episode.agent == agent:
            assert messages[: len(before) + 1] == [*before, {"role": "assistant", "content": CODE}]
            assert len(messages) == len(before) + 2
        else:
            assert len(messages) == 1
        assert [m["role"] for m in messages] == ["user", "assistant"] * episode.turn + ["user"]
        agent, before = episode.agent, messages
        record = episode.act(CODE)
        assert list(record.messages) == before
    assert len(episode.actions) == 12
    assert episode.messages() == []


def test_what_a_caller_does_to_messages_changes_nothing(episode: Episode) -> None:
    episode.reset(seed=0)
    episode.messages()[0]["content"] = "changed"
    assert "changed" not in episode.prompt()


def test_later_agents_see_earlier_words_and_output_but_no_thinking() -> None:
    action = "<think>SECRET-THOUGHT</think>MY-WORDS\n```python\nprint('MY-' + 'OUTPUT')\n```"
    verifier = play(["<think>SECRET-THOUGHT</think>THE-PLAN", action, "result: 6", "x"]).actions[-1]
    seen = verifier.messages[0]["content"]
    for words in ("THE-PLAN", "MY-WORDS", "MY-OUTPUT", "result: 6"):
        assert words in seen
    assert "SECRET-THOUGHT" not in seen


def test_the_agent_itself_keeps_its_whole_last_turn() -> None:
    action = f"<think>SECRET-THOUGHT</think>{CODE}"
    again = play(["plan", action, "result"], sandbox="null").actions[-1]
    assert again.messages[1] == {"role": "assistant", "content": action}


@pytest.mark.parametrize("prompts", ["full", "compact"])
@pytest.mark.parametrize("coach_feedback", ["agents", "off"])
def test_the_coachs_words_are_shown_only_on_request(prompts: str, coach_feedback: str) -> None:
    options = {"prompts": prompts, "coach_feedback": coach_feedback}
    actions = play(["plan: 1", CODE, "result: 6", "\\boxed{6}"], sandbox="null", **options).actions
    for i, action in enumerate(actions[:-1]):
        words = action.verdict.reasoning
        assert len(words) > 15
        later = actions[i + 1].messages[-1]["content"]
        repeated = words[:15] in later or words[-15:] in later  # short prompts clip the middle
        assert repeated == (coach_feedback == "agents"), action.agent


def test_the_truth_reaches_no_prompt() -> None:
    episode = Episode(DSBENCH, sandbox="null")
    episode.reset(seed=4)
    answers = episode.task.truth["answers_csv"].decode()
    while not episode.over:
        assert answers[:200] not in episode.prompt()
        episode.act("x")


# -- sandbox, seeds, workspace ----------------------------------------------------------------------------


def test_without_a_sandbox_there_is_no_score() -> None:
    trajectory = play(["plan: 2 * 3", CODE, "result: 6", "\\boxed{6}"], sandbox=NO_PYTHON)
    assert trajectory.outcome is not None
    assert (trajectory.outcome.status, trajectory.outcome.success) == ("unavailable", False)
    coder = trajectory.actions[1]
    assert coder.tool is not None
    assert coder.tool.status == "unavailable"
    assert "/no/such/python" in coder.tool.stderr
    assert (coder.reward, coder.reward_valid) == (0.0, False)
    assert coder.verdict.score is None


def test_outcome_rewards_of_an_episode_without_a_sandbox_are_invalid() -> None:
    trajectory = play(["a", CODE, "b", "\\boxed{6}"], sandbox=NO_PYTHON, shaping="outcome")
    assert trajectory.actions[-1].reward_valid is False


def test_the_same_seed_is_the_same_trajectory_with_all_digests() -> None:
    texts = [WRITES, WRITES, "done", "done", "done"]
    runs = [play(texts, seed=11, card=DSBENCH) for _ in range(2)]
    assert timeless(runs[0]) == timeless(runs[1])
    first, second = (action.tool for action in runs[0].actions[:2])
    assert first is not None
    assert second is not None
    assert [(change.path, change.op) for change in first.files] == [("X_train.pkl", "created")]
    assert len(first.files[0].sha256) == 64
    assert first.files[0].agent == "engineer_0"
    assert first.files[0].sha256 != second.files[0].sha256  # each action draws its own numbers
    other = play(texts, seed=12, card=DSBENCH)
    assert other.actions[0].seed != runs[0].actions[0].seed


def test_files_are_handed_on_and_all_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    episode = Episode(DSBENCH, coach="off", sandbox="process")
    episode.reset(seed=0)
    episode.act("```python\nopen('notes.txt', 'w').write('hello')\n```")
    episode.act("done")
    assert "notes.txt" in episode.prompt()
    record = episode.act("```python\nprint(open('notes.txt').read())\n```")
    assert record.tool is not None
    assert record.tool.stdout == "hello\n"
    assert len(list(tmp_path.iterdir())) == 1
    episode.reset(seed=0)
    assert list(tmp_path.iterdir()) == []
    assert "notes.txt" not in episode.prompt()
    episode.close()
    episode.close()
    assert list(tmp_path.iterdir()) == []
