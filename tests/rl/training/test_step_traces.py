"""A step's traces: what was played, then what was learned; a step that is played again starts again."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from mappa_env.registration import find_card
from mappa_env.trace import Traces
from mappa_rl.algos import Advantages
from mappa_rl.learner.samples import merge_turns
from mappa_rl.training.traces import StepTraces
from mappa_rl.types import Rollout, Sample, StepStats, Turn
from synthetic_run import AGENTS, trajectory

CARD = find_card("mathchat")


def rollout(index: int) -> Rollout:
    """The tokens of ``synthetic_run.trajectory(index)``."""
    turns = tuple(
        Turn(
            agent=agent,
            policy=agent,
            step=step,
            turn=0,
            context_ids=[1, 2, 3 + step],
            action_ids=[10 + index, 11],
            logprobs=[-0.125, -0.1],
            stopped="eos",
            reward=4.0 + step,
            valid=step != 1,
            stratum=("math", agent.split("_")[0], 0),
            version=7,
        )
        for step, agent in enumerate(AGENTS)
    )
    return Rollout(turns, f"eval-{index:05d}", "", 7 + index, True, 1.0)


def learned_from(rollouts: list[Rollout]) -> tuple[list[Sample], Advantages, list[np.ndarray]]:
    """Samples of all policies, with the step as advantage and ten times that as return."""
    samples = [s for i, each in enumerate(rollouts) for s in merge_turns(each.turns, each.task_id, i)]
    weights = [s.action_mask.astype(np.float32) * s.spans[0].valid for s in samples]
    advantages = [np.full(len(s), s.spans[0].step, np.float32) for s in samples]
    returns = [10 * each for each in advantages]
    return samples, Advantages(advantages, weights, StepStats(), returns), advantages


def play(traces: StepTraces, step: int, count: int = 2) -> None:
    rollouts = [rollout(index) for index in range(count)]
    traces.begin(step, rollouts, [trajectory(index, True) for index in range(count)])
    traces.weighed(*learned_from(rollouts))
    traces.end()


def test_a_step_says_what_was_learned_of_each_action(tmp_path: Path) -> None:
    with StepTraces(tmp_path, CARD, 1) as traces:
        play(traces, 1)
        traces.settle()
        (first, second) = Traces(tmp_path)
    assert first.about == {"phase": "train", "step": 1}
    assert first.card["id"] == "MathChat-v0"
    assert second.trajectory.seed == 8
    made = second.learned[2]
    assert (made.policy, made.version, made.reward) == (AGENTS[2], 7, 6.0)
    assert (made.returned, made.advantage) == (20.0, 2.0)
    assert (made.context_ids, made.action_ids, made.logprobs) == ((1, 2, 5), (11, 11), (-0.125, -0.1))
    assert (second.learned[1].valid, second.learned[1].advantage) == (False, None)  # not trained on
    advantages = [action.advantage for summary in Traces(tmp_path).summaries for action in summary.actions]
    assert advantages == [0.0, None, 2.0] * 2


def test_only_every_nth_step_is_kept(tmp_path: Path) -> None:
    with StepTraces(tmp_path, CARD, 2) as traces:
        for step in (1, 2, 3, 4):
            play(traces, step)
    assert [each.about["step"] for each in Traces(tmp_path).summaries] == [2, 2, 4, 4]
    with StepTraces(tmp_path / "none", CARD, 0) as traces:
        play(traces, 1)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("finished", [False, True])
def test_a_step_that_is_played_again_is_there_once(tmp_path: Path, finished: bool) -> None:
    with StepTraces(tmp_path, CARD, 1) as traces:
        play(traces, 1)
        play(traces, 2)
        traces.begin(3, [rollout(0)], [trajectory(0, True)])
        if finished:
            traces.end()
    assert len(list(Traces(tmp_path).summaries)) == 5
    with StepTraces(tmp_path, CARD, 1, resumed_at=1) as traces:
        assert [each.about["step"] for each in Traces(tmp_path).summaries] == [1, 1]
        play(traces, 2)
        play(traces, 3)
    assert [each.about["step"] for each in Traces(tmp_path).summaries] == [1, 1, 2, 2, 3, 3]


def test_a_file_that_cannot_be_written_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "traces").write_text("in the way")
    traces = StepTraces(tmp_path, CARD, 1)
    play(traces, 1)
    with pytest.raises(OSError):
        traces.settle()
    with pytest.raises(OSError):
        traces.__exit__()


def test_an_episode_that_was_cut_off_is_kept(tmp_path: Path) -> None:
    cut = dataclasses.replace(trajectory(0, True), outcome=None, actions=())
    with StepTraces(tmp_path, CARD, 1) as traces:
        traces.begin(1, [dataclasses.replace(rollout(0), turns=())], [cut])
        traces.end()
    (found,) = Traces(tmp_path).summaries
    assert (found.success, found.actions) == (None, ())
