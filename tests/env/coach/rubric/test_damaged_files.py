"""Agents whose inputs are unsound, and who damage other files: what blocks them does not excuse that."""

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
from sprint_play import TARGETS, sprint, tables

DAMAGE = {
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
    """An episode in which the engineer damages its labels, and the modeler runs these lines."""
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


@pytest.mark.parametrize("name", DAMAGE)
def test_who_is_blocked_may_damage_nothing(episode: Episode, name: str) -> None:
    play(episode, *LOOKS, *DAMAGE[name])
    mine = next(action for action in episode.actions if action.agent == "modeler_0")
    assert mine.verdict.score is not None
    assert mine.verdict.score <= 2, mine.verdict
    assert mine.verdict.blame == "modeler_0"
    last = Case(episode.evidence[-1], episode.card.order)
    assert last.me == "analyst_0"
    writers = {cause.path: cause.writer for cause in unsound_inputs(last)}
    damaged = "submission.csv" if name == "a folder in place of the result" else "X_test.pkl"
    assert (writers["model.pkl"], writers[damaged]) == ("engineer_0", "modeler_0")


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


UNUSABLE = {
    "missing values": ("z.iloc[4, 0] = float('nan')", "Z = Z.fillna(0)"),
    "texts": (
        "z = z.astype(object)\nz.iloc[4, 0] = '?'",
        "Z = Z.apply(pd.to_numeric, errors='coerce').fillna(0)",
    ),
    "rows": ("z = z.iloc[:-2]", "Z = pd.concat([Z, Z.iloc[-2:]])"),
    "another scale": ("z = z * 1000", "Z = Z / 1000"),
}
"""What an engineer did to X_test, and how another agent repairs it."""
FOREST = """
import pandas as pd
from sklearn.ensemble import ExtraTreesRegressor
X, y = pd.read_pickle('X_train.pkl'), pd.read_pickle('y_train.pkl')
pd.to_pickle(ExtraTreesRegressor(60, random_state=0).fit(X, y), 'model.pkl')
"""


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_modeler_may_repair_a_table_that_it_need_not_read(name: str) -> None:
    damage, repair = UNUSABLE[name]
    modeler = f"{FOREST}\nZ = pd.read_pickle('X_test.pkl')\n{repair}\nZ.to_pickle('X_test.pkl')"
    played = sprint(tables(f"z = z.astype(float)\n{damage}"), modeler, seed=TARGETS)
    assert played.culprit == "engineer_0", played
    assert (played.scores[0] or 0) <= 4, played
    assert (played.scores[1] or 0) >= 8, played


RUIN = {
    "zeros": "X = X * 0",
    "rows mixed": "X = X.sample(frac=1, random_state=0)",
    "one column": "X = X[X.columns[:1]] * 0",
}


@pytest.mark.parametrize("repaired", [False, True])
@pytest.mark.parametrize("name", RUIN)
def test_a_defect_of_another_file_excuses_no_ruin(name: str, repaired: bool) -> None:
    damage, repair = UNUSABLE["missing values"]
    ruin = f"X = pd.read_pickle('X_train.pkl')\n{RUIN[name]}\nX.to_pickle('X_train.pkl')"
    fix = f"Z = pd.read_pickle('X_test.pkl')\n{repair}\nZ.to_pickle('X_test.pkl')" if repaired else ""
    played = sprint(tables(f"z = z.astype(float)\n{damage}"), f"{FOREST}\n{ruin}\n{fix}", seed=TARGETS)
    assert (played.scores[1] or 0) <= 2, played
