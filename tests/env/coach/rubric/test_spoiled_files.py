"""Agents whose inputs are unsound, and who spoil other files: what blocks them does not excuse that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mappa_env.cards import read_card
from mappa_env.coach.culprit import culprit
from mappa_env.coach.rubric.case import Case
from mappa_env.coach.rubric.inputs import unsound_inputs
from mappa_env.episode.episode import Episode
from mappa_env.scripted import make_team
from paths import REGISTRY
from probing import code_of
from rubric_play import code

SPOIL = {
    "a sound table": ("open('X_test.pkl', 'wb').write(b'junk')",),
    "its rows": ("import pandas as pd", "pd.read_pickle('X_test.pkl').iloc[3:].to_pickle('X_test.pkl')"),
    "gone": ("import os", "os.remove('X_test.pkl')"),
    "a folder": ("import os", "os.remove('X_test.pkl')", "os.mkdir('X_test.pkl')"),
    "a folder in place of the result": ("import os", "os.mkdir('submission.csv')"),
}
LOOKS = ("import pickle", "open('y_train.pkl', 'rb').read()")


@pytest.fixture(scope="module")
def episode() -> Iterator[Episode]:
    episode = Episode(read_card(REGISTRY / "dsbench"), sandbox="local", prompts="compact")
    yield episode
    episode.close()


def play(episode: Episode, *modeler: str) -> None:
    """An episode in which the engineer spoils its labels, and the modeler runs these lines."""
    team = make_team("dsbench", "expert")
    episode.reset(seed=3)
    team.reset(episode.task, 3)
    while episode.agent is not None:
        text = team.act(episode.agent, episode.turn, episode.actions)
        if episode.agent == "modeler_0":
            text = code(*modeler) if episode.turn == 0 else "done"
        elif episode.agent == "engineer_0" and "```" in text:
            text = code(code_of(text), "open('y_train.pkl', 'wb').write(b'no pickle')")
        episode.act(text)


@pytest.mark.parametrize("name", SPOIL)
def test_who_is_blocked_may_spoil_nothing(episode: Episode, name: str) -> None:
    play(episode, *LOOKS, *SPOIL[name])
    mine = next(action for action in episode.actions if action.agent == "modeler_0")
    assert mine.verdict.score is not None
    assert mine.verdict.score <= 2, mine.verdict
    assert mine.verdict.blame == "modeler_0"
    last = Case(episode.evidence[-1], episode.card.order)
    assert last.me == "analyst_0"
    writers = {cause.path: cause.writer for cause in unsound_inputs(last)}
    spoiled = "submission.csv" if name == "a folder in place of the result" else "X_test.pkl"
    assert (writers["model.pkl"], writers[spoiled]) == ("engineer_0", "modeler_0")


REPAIRS = {
    "the unsound file": (
        "import pandas as pd",
        "train = pd.read_csv('train.csv')",
        "train[train.columns[-1]].to_pickle('y_train.pkl')",
    ),
    "a sound one, as soundly": (
        "import pandas as pd",
        "pd.read_pickle('X_test.pkl').to_pickle('X_test.pkl')",
    ),
}


@pytest.mark.parametrize("name", REPAIRS)
def test_a_repair_is_no_damage(episode: Episode, name: str) -> None:
    play(episode, *LOOKS, *REPAIRS[name])
    mine = next(action for action in episode.actions if action.agent == "modeler_0")
    assert (mine.verdict.score or 0) >= 6, mine.verdict
    assert culprit(episode.actions) == "engineer_0"
