"""The rubric on models that no X_test can test: they are tried on X_train, or nobody can tell."""

from __future__ import annotations

import gymnasium as gym
import pytest

from mappa_env import team_env
from mappa_env.coach.culprit import culprit

ENGINEER = """import pandas as pd, numpy as np
tr, te = pd.read_csv("train.csv"), pd.read_csv("test.csv")
y = tr[TARGET]
X = pd.get_dummies(tr.drop(columns=[TARGET, ID]), dtype=float)
Z = pd.get_dummies(te.drop(columns=[ID]), dtype=float).reindex(columns=X.columns, fill_value=0.0)
med = X.median(); X, Z = X.fillna(med).fillna(0), Z.fillna(med).fillna(0)
CHANGE
X.to_pickle("X_train.pkl"); y.to_pickle("y_train.pkl")
if Z is not None: Z.to_pickle("X_test.pkl")"""
CRASH, NO_TEST, SHORT = "raise RuntimeError('x')", "Z = None", "Z = Z.iloc[:-1]"
NOISE = "X[:] = np.random.default_rng(0).normal(size=X.shape); Z = None"
FIT = """import pandas as pd, numpy as np, pickle
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.linear_model import Lasso, LogisticRegression
X, y = pd.read_pickle("X_train.pkl"), np.ravel(pd.read_pickle("y_train.pkl"))
number = y.dtype.kind == "f"
m = (ExtraTreesRegressor if number else ExtraTreesClassifier)(50, random_state=0)
CHANGE
pickle.dump(m.fit(X, y), open("model.pkl", "wb"))"""
DUMMY = "m = DummyRegressor() if number else DummyClassifier()"
SHUFFLED = "y = np.random.default_rng(0).permutation(y)"
LOGARITHM = "y = np.log1p(y - y.min()) if number else y"
LINEAR = "m = Lasso(0.01) if number else LogisticRegression(max_iter=50)"
SCALED = """from sklearn.preprocessing import StandardScaler
s = StandardScaler().fit(X * 1000 + 77); X = s.transform(X * 1000 + 77)
pickle.dump(s, open("scaler.pkl", "wb"))"""
CONSTANT = "m = Lasso(1e9) if number else DummyClassifier()"
BLIND = """import pandas as pd, pickle
from sklearn.dummy import DummyClassifier
try: pd.read_pickle("X_train.pkl")
except Exception: pass
pickle.dump(DummyClassifier().fit([[0], [1]], [0, 1]), open("model.pkl", "wb"))"""
REBUILD = """import pandas as pd, pickle
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
try: pd.read_pickle("X_train.pkl")
except Exception: pass
tr = pd.read_csv("train.csv"); y = tr[TARGET]
X = pd.get_dummies(tr.drop(columns=[TARGET, ID]), dtype=float).fillna(0)
pickle.dump((ExtraTreesRegressor if y.dtype.kind == "f" else ExtraTreesClassifier)(50).fit(X, y),
    open("model.pkl", "wb"))"""
STOP = "import pandas as pd\npd.read_pickle('X_test.pkl')"
NUMBERS, LABELS = "train-diabetes-001", "train-cancer-000"


def scores(engineer: str, modeler: str, task: str = NUMBERS) -> tuple[float, float, str | None]:
    """What engineer and modeler earn, and who is the culprit."""
    env = gym.make("mappa/DSBenchSprint-v0", coach="rubric", sandbox="local")
    _, info = env.reset(seed=1, options={"task_id": task})
    episode = team_env(env).episode
    meta = episode.task.meta
    for agent, program in (("engineer_0", engineer), ("modeler_0", modeler), ("analyst_0", STOP)):
        named = program.replace("TARGET", repr(meta["target"])).replace("ID", repr(meta["id"]))
        while info.get("agent") == agent:
            *_, info = env.step(f"```python\n{named}\n```")
    last = {action.agent: action.verdict.score for action in episode.actions if action.verdict is not None}
    found = last["engineer_0"], last["modeler_0"]
    env.close()
    assert None not in found
    return float(found[0] or 0), float(found[1] or 0), culprit(episode.actions)


@pytest.mark.parametrize("task", [NUMBERS, LABELS])
@pytest.mark.parametrize(("change", "score"), [(DUMMY, 1.0), (SHUFFLED, 1.5)])
def test_junk_is_the_fault_of_its_writer_where_the_training_tables_are_sound(
    task: str, change: str, score: float
) -> None:
    assert scores(ENGINEER.replace("CHANGE", NO_TEST), FIT.replace("CHANGE", change), task)[1] == score


@pytest.mark.parametrize("change", [DUMMY, SHUFFLED])
def test_junk_is_found_where_x_test_lacks_a_row(change: str) -> None:
    assert scores(ENGINEER.replace("CHANGE", SHORT), FIT.replace("CHANGE", change))[1] <= 1.5


@pytest.mark.parametrize("task", [NUMBERS, LABELS])
@pytest.mark.parametrize("change", ["", LOGARITHM, LINEAR, SCALED])
@pytest.mark.parametrize("without", [NO_TEST, SHORT])
def test_a_model_that_learned_its_rows_keeps_its_reward(task: str, change: str, without: str) -> None:
    engineer, modeler, who = scores(ENGINEER.replace("CHANGE", without), FIT.replace("CHANGE", change), task)
    assert (modeler, who) == (8, "engineer_0")
    assert engineer <= 1


def test_nobody_is_accused_of_a_constant_where_there_is_nothing_to_learn() -> None:
    assert scores(ENGINEER.replace("CHANGE", NOISE), FIT.replace("CHANGE", CONSTANT))[1] == 6


@pytest.mark.parametrize("task", [NUMBERS, LABELS])
def test_without_any_table_nobody_can_tell_what_a_model_is_worth(task: str) -> None:
    crashed = ENGINEER.replace("CHANGE", CRASH)
    engineer, modeler, who = scores(crashed, REBUILD, task)
    assert (modeler, who) == (6, "engineer_0")
    assert engineer <= 1


def test_a_model_of_programs_that_saw_no_data_is_idle() -> None:
    engineer, modeler, who = scores(ENGINEER.replace("CHANGE", CRASH), BLIND)
    assert (modeler, who) == (2, "engineer_0")
    assert engineer < modeler
