"""Plays real episodes of competitions with several targets, of a small release that a test writes."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pandas as pd

from mappa_env import team_env
from mappa_env.coach.culprit import culprit
from sprint_play import AGENTS, Played

AIR, CHATS, DEFECTS = "tabular-playground-series-jul-2021", "lmsys-chatbot-arena", "playground-series-s4e3"
"""Three targets of numbers; three of which one is 1; seven that are 0 or 1."""
AIR_TARGETS = ("target_carbon_monoxide", "target_benzene", "target_nitrogen_oxides")
CHAT_TARGETS = ("winner_model_a", "winner_model_b", "winner_tie")
DEFECT_TARGETS = ("Pastry", "Z_Scratch", "K_Scatch", "Stains", "Dirtiness", "Bumps", "Other_Faults")
TARGETS = {AIR: AIR_TARGETS, CHATS: CHAT_TARGETS, DEFECTS: DEFECT_TARGETS}
IDS = {AIR: "date_time", CHATS: "id", DEFECTS: "id"}
REGRESSOR = "ExtraTreesRegressor(40, random_state=0).fit(X, y)"
CLASSIFIER = "RandomForestClassifier(60, min_samples_leaf=2, random_state=0).fit(X, np.ravel(y))"
BY_TARGET = "RandomForestClassifier(60, min_samples_leaf=2, random_state=0).fit(X, y)"
PREDICTS, SHARES = "m.predict(Z)", "np.clip(m.predict_proba(Z), .02, 1)"
LISTED = "np.column_stack([each[:, -1] for each in m.predict_proba(Z)])"
"""How an analyst asks a model that has one table of probabilities per target."""
SHUFFLED = "y = y.sample(frac=1, random_state=0)"
NOISE = """
draw = np.random.default_rng(99).normal
X, Z = (pd.DataFrame(draw(size=each.shape), columns=X.columns) for each in (X, Z))
"""
_ENGINEER = """
import numpy as np
import pandas as pd
t, e = pd.read_csv('train.csv'), pd.read_csv('test.csv')
X, y, Z = t.drop(columns=[IDS, *TARGETS]), t[TARGETS], e.drop(columns=[IDS])
CHANGE
for value, name in ((X, 'X_train'), (y, 'y_train'), (Z, 'X_test')):
    pd.to_pickle(value, f'{name}.pkl')
"""
_MODELER = """
import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier
X, y = pd.read_pickle('X_train.pkl'), pd.read_pickle('y_train.pkl')
pd.to_pickle(MODEL, 'model.pkl')
"""
_ANALYST = """
import numpy as np
import pandas as pd
e, Z, m = pd.read_csv('test.csv'), pd.read_pickle('X_test.pkl'), pd.read_pickle('model.pkl')
p = pd.DataFrame(np.asarray(PREDICTIONS), columns=TARGETS)
p.insert(0, IDS, e[IDS])
p.to_csv('submission.csv', index=False)
"""


def release(root: Path, rows: int = 900) -> Path:
    """A release with the three competitions; two thirds of their ``rows`` are for training."""
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(rows, 7)), columns=[f"f{i}" for i in range(7)])
    noise = rng.normal(size=(rows, 7))
    air = [np.exp(1 + i + 0.6 * x[f"f{i}"] + 0.3 * x.f3 + 0.1 * noise[:, i]) for i in range(3)]
    won = (2 * x.iloc[:, :3].to_numpy() + noise[:, :3]).argmax(axis=1)
    targets = {
        AIR: np.column_stack(air),
        CHATS: (won[:, None] == np.arange(3)).astype(int),
        DEFECTS: (x.to_numpy() + 0.5 * noise > 0.8).astype(int),
    }
    for name, values in targets.items():
        table = pd.concat([x, pd.DataFrame(values, columns=TARGETS[name])], axis=1)
        hours = pd.date_range("2010-03-10", periods=rows, freq="h").astype(str)
        table.insert(0, IDS[name], hours if name == AIR else range(rows))
        _write(root, name, table, rows * 2 // 3)
    return root


def _write(root: Path, name: str, table: pd.DataFrame, cut: int) -> None:
    folder, answers = root / "data_resplit" / name, root / "answers" / name
    for each in (folder, answers, root / "task"):
        each.mkdir(parents=True, exist_ok=True)
    (root / "task" / f"{name}.txt").write_text(f"The text of {name}.\n")
    targets = list(TARGETS[name])
    asked = table.iloc[cut:]
    table.iloc[:cut].to_csv(folder / "train.csv", index=False)
    asked.drop(columns=targets).to_csv(folder / "test.csv", index=False)
    asked[[IDS[name], *targets]].to_csv(answers / "test_answer.csv", index=False)
    asked[[IDS[name], *targets]].assign(**dict.fromkeys(targets, 0)).to_csv(
        folder / "sample_submission.csv", index=False
    )


def play(root: Path, task: str, change: str, model: str = REGRESSOR, predictions: str = PREDICTS) -> Played:
    """One episode: the engineer's ``change`` of X, y and Z, a modeler's model, an analyst's predictions."""
    programs = (
        _ENGINEER.replace("CHANGE", change),
        _MODELER.replace("MODEL", model),
        _ANALYST.replace("PREDICTIONS", predictions),
    )
    env = gym.make("mappa/DSBench-v0", coach="rubric", sandbox="local", tasks=str(root))
    _, info = env.reset(seed=1, options={"task_id": task})
    episode = team_env(env).episode
    for agent, program in zip(AGENTS, programs, strict=True):
        for word, meant in (("TARGETS", list(TARGETS[task])), ("IDS", IDS[task])):
            program = program.replace(word, repr(meant))
        text = f"```python\n{program}\n```"
        while info.get("agent") == agent:
            _, _, _, _, info = env.step(text)
            text = "I am done."
    last = {action.agent: action.verdict for action in episode.actions}
    blamed = culprit(episode.actions)
    env.close()
    return Played(
        tuple(last[agent].valid_score for agent in AGENTS),
        blamed,
        tuple(last[agent].reasoning for agent in AGENTS),
    )
