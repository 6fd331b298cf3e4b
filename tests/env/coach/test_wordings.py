"""What an agent says moves neither a score nor the blame: only what the host observed counts."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence

import pytest

from mappa_env.cards import read_card
from mappa_env.coach import make_coach
from mappa_env.coach.blame.attribution import attribute
from mappa_env.coach.culprit import culprit, culprit_step
from mappa_env.coach.llm.criteria import BEST, read_spec
from mappa_env.coach.rubric.case import Case
from mappa_env.episode.episode import Episode
from mappa_env.parsing import parse
from mappa_env.scripted import load_script, make_team
from mappa_env.types import ActionRecord, Evidence, Trajectory
from paths import REGISTRY
from wordings import DISHONEST, HONEST

WORDINGS = (*HONEST, *DISHONEST)
SANDBOXES = {"mathchat": "calculator", "dsbench": "local"}
FAULTS = [
    (card, f"{role}_0", fault)
    for card in SANDBOXES
    for role, faults in load_script(card)[0].faults.items()
    for fault in faults
]
THIRDS = [
    pytest.param(*fault, third, marks=() if third == number % 3 else pytest.mark.large)
    for number, fault in enumerate(FAULTS)
    for third in range(3)
]
"""Every fault with each third of the wordings; one third of each is not ``large``."""
_LINE = re.compile(r"^(?:plan|result): .*$|.*\\boxed.*", re.MULTILINE)
"""What the next agent needs: it is the work of a team that communicates by text, not words around it."""


@pytest.fixture(scope="module")
def episodes() -> Iterator[dict[str, Episode]]:
    found = {
        name: Episode(read_card(REGISTRY / name), sandbox=sandbox, prompts="compact")
        for name, sandbox in SANDBOXES.items()
    }
    yield found
    for episode in found.values():
        episode.close()


def play(episode: Episode, agent: str, fault: str, seed: int) -> Episode:
    team = make_team(str(episode.card.scripted), "single", agent=agent, fault=fault)
    episode.reset(seed=seed)
    team.reset(episode.task, seed)
    while episode.agent is not None:
        episode.act(team.act(episode.agent, episode.turn, episode.actions))
    return episode


def said(text: str, words: str) -> str:
    """``text`` with its words replaced; its code and the lines that pass a value on stay."""
    fences = re.findall(r"```python\n.*?\n```", text, re.DOTALL)
    kept = [f"{fence}" for fence in fences] or _LINE.findall(text)
    return "\n\n".join([words, *kept]).strip()


def reworded(episode: Episode, words: Callable[[int], str]) -> tuple[list[Evidence], Trajectory]:
    """The episode, judged again with the words ``words(step)`` in each action."""
    coach = make_coach("rubric", episode.card)
    evidence: list[Evidence] = []
    done: list[ActionRecord] = []
    for at, record in zip(episode.evidence, episode.actions, strict=True):
        text = said(record.action, words(record.step))
        parsed = parse(text, tools="python" in at.agent.tools)
        assert parsed.code == record.code, text
        at = dataclasses.replace(at, action=text, history=tuple(done))
        record = dataclasses.replace(record, action=text, thinking=parsed.thinking, answer=parsed.answer)
        evidence.append(at)
        done.append(dataclasses.replace(record, verdict=coach.judge(at)))
    return evidence, dataclasses.replace(episode.trajectory, actions=tuple(done))


def judged(episode: Episode, words: Callable[[int], str]) -> tuple[object, ...]:
    """All that must not move: scores, blame, culprit, attribution, and the limits of a model's score."""
    evidence, trajectory = reworded(episode, words)
    team, actions = episode.card.team, trajectory.actions
    found = attribute(trajectory, episode.card)
    return (
        [action.verdict.score for action in actions],
        [action.verdict.blame for action in actions],
        (culprit(actions), culprit_step(actions, team)),
        (found.fractions, found.culprit),
        most(episode, evidence),
    )


def most(episode: Episode, evidence: Sequence[Evidence]) -> list[float]:
    """The scores of a language model that gives the best grades everywhere, after the gates."""
    path, team = episode.card.coach, episode.card.team
    assert path is not None
    spec = read_spec(path, tuple(sorted({agent.role for agent in team})))
    best = {role: {row.name: BEST for row in rows.criteria} for role, rows in spec.roles.items()}
    return [spec.score(at.agent.role, best[at.agent.role], Case(at, episode.card.order)) for at in evidence]


@pytest.mark.slow
@pytest.mark.parametrize(("card", "agent", "fault", "third"), THIRDS)
def test_no_wording_moves_a_score_or_the_blame(
    episodes: dict[str, Episode], card: str, agent: str, fault: str, third: int
) -> None:
    episode = play(episodes[card], agent, fault, seed=3)
    plain = judged(episode, lambda step: "I do my part.")
    for words in WORDINGS[third::3]:
        assert judged(episode, lambda step: words) == plain, words  # noqa: B023

        def alone(step: int) -> str:
            return words if episode.actions[step].agent == agent else "I do my part."  # noqa: B023

        assert judged(episode, alone) == plain, words


@pytest.mark.parametrize("seed", range(16))
def test_the_published_example(episodes: dict[str, Episode], seed: int) -> None:
    """The engineer forgets X_test.pkl and the analyst crashes on it: 6 of 10, and not at fault."""
    episode = play(episodes["dsbench"], "engineer_0", "forgets_x_test", seed)
    mine = [action.verdict for action in episode.actions if action.agent == "analyst_0"]
    assert {verdict.score for verdict in mine} == {6.0}
    assert {verdict.blame for verdict in mine} == {"engineer_0"}
    assert culprit(episode.actions) == "engineer_0"
    lowest = min(episode.actions, key=lambda action: action.verdict.score or 0.0)
    assert lowest.agent == "engineer_0"
    analyst = [at for at in episode.evidence if at.agent.name == "analyst_0"]
    assert most(episode, analyst) == [10.0] * len(analyst)  # no gate cuts a model's right 6


def test_there_are_enough_wordings() -> None:
    assert (len(set(HONEST)), len(set(DISHONEST))) == (30, 15)
