"""The rubric on files in a form that the next agent cannot use: the writer is at fault, not the reader."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
import pytest

from mappa_env import team_env
from mappa_env.coach.blame.attribution import attribute
from mappa_env.coach.culprit import culprit
from mappa_env.scripted import make_team
from mappa_env.types import ActionRecord, Outcome, Trajectory, Verdict
from probing import code_of
from rubric_play import TABLE, Play, code, ran
from rubric_tables import LOADS, engineer, facts, graded, modeler, no_file, predictions, submit, with_model

LABELS, NUMBERS = 4, 5
"""Seeds of tasks of text labels, and of regression."""
TABLES = """import pickle, joblib, numpy as np, pandas as pd
X, y, Z = (pd.read_pickle(f"{name}.pkl") for name in ("X_train", "y_train", "X_test"))
"""
MODEL = """import gzip, joblib, pickle
model = pickle.load(open("model.pkl", "rb"))
"""
PICKLED = "pickle.load(open('model.pkl', 'rb'))"
NAMING = "open({file!r}, 'wb').write(b'c{module}\\n{name}\\n.')"


def episode(
    writer: str, more: str, seed: int, analyst: Callable[[str], str] | None = None
) -> list[ActionRecord]:
    """The experts' actions with code, where the script of ``writer`` ends with ``more``.

    ``analyst`` changes the code of the analyst.
    """
    env = gym.make("mappa/DSBench-v0", coach="rubric")
    env.reset(seed=seed)
    running, team, over = team_env(env).episode, make_team("dsbench", "expert"), False
    team.reset(running.task, seed=1)
    while not over:
        agent = str(running.agent)
        action = team.act(agent, running.turn, running.actions)
        if "```" in action and agent == writer:
            action = f"```python\n{code_of(action)}\n{more}\n```"
        if "```" in action and agent == "analyst_0" and analyst is not None:
            action = f"```python\n{analyst(code_of(action))}\n```"
        over = env.step(action)[2]
    actions = [action for action in running.actions if action.tool is not None]
    env.close()
    return actions


ENGINEERS = {
    "gzip": (TABLES + "X.to_pickle('X_train.pkl', compression='gzip')", NUMBERS),
    "mixed names": (TABLES + "X.columns = [0, *X.columns[1:]]; X.to_pickle('X_train.pkl')", NUMBERS),
    "large values": (TABLES + "(X.astype(float) * 1e300).to_pickle('X_train.pkl')", NUMBERS),
    "words for numbers": (TABLES + "('value ' + y.astype(str)).to_pickle('y_train.pkl')", NUMBERS),
    "other labels": (TABLES + "('class ' + y.astype(str)).to_pickle('y_train.pkl')", LABELS),
    "many labels": (TABLES + "pd.concat([y] * 40_000).to_pickle('y_train.pkl')", NUMBERS),
    "many test rows": (TABLES + "pd.concat([Z] * 20_000).to_pickle('X_test.pkl')", NUMBERS),
    "junk": ("open('X_train.pkl', 'wb').write(bytes(range(256)))", NUMBERS),
    "no such package": (NAMING.format(file="X_train.pkl", module="nosuch.mod", name="Thing"), NUMBERS),
    "no such module": (NAMING.format(file="X_train.pkl", module="sklearn.nosuch", name="Thing"), NUMBERS),
    "no such name": (NAMING.format(file="X_train.pkl", module="gymnasium", name="NoSuch"), NUMBERS),
    "a blunder inside": (
        "open('X_train.pkl', 'wb').write(b'cbuiltins\\neval\\n(Vundefined_name\\ntR.')",
        NUMBERS,
    ),
}
MODELERS = {
    "gzip": MODEL + "pickle.dump(model, gzip.open('model.pkl', 'wb'))",
    "junk": "open('model.pkl', 'wb').write(bytes(range(256)))",
    "no such package": NAMING.format(file="model.pkl", module="nosuch.mod", name="Thing"),
    "no such name": NAMING.format(file="model.pkl", module="sklearn.ensemble", name="NoSuch"),
}


def check(actions: list[ActionRecord], writer: str) -> None:
    assert culprit(actions) == writer
    for action in actions:
        assert action.verdict.score is not None
        if action.agent == writer:
            assert action.verdict.score <= 1
        elif action.step > next(each.step for each in actions if each.agent == writer):
            assert (action.verdict.score >= 4, action.verdict.blame) == (True, writer)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINEERS)
def test_tables_that_block_their_readers_are_the_engineers_fault(name: str) -> None:
    more, seed = ENGINEERS[name]
    check(episode("engineer_0", more, seed), "engineer_0")


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELERS)
def test_models_that_block_their_readers_are_the_modelers_fault(name: str) -> None:
    check(episode("modeler_0", MODELERS[name], NUMBERS), "modeler_0")


@pytest.mark.slow
@pytest.mark.parametrize(
    "save", ["np.save(open('y_train.pkl', 'wb'), y.to_numpy())", "joblib.dump(y.to_numpy(), 'y_train.pkl')"]
)
def test_a_table_of_another_known_format_is_sound_until_it_blocks_its_reader(save: str) -> None:
    first, *others = actions = episode("engineer_0", TABLES + save, NUMBERS)
    assert first.verdict.score == 10
    assert [(each.verdict.score, each.verdict.blame) for each in others] == [(6, "engineer_0")] * 2
    assert culprit(actions) == "engineer_0"


@pytest.mark.slow
@pytest.mark.parametrize("pack", ["", ", compress=3"])
def test_a_model_of_joblib_is_sound_until_it_blocks_its_reader(pack: str) -> None:
    actions = episode("modeler_0", f"{MODEL}joblib.dump(model, 'model.pkl'{pack})", NUMBERS)
    assert [each.verdict.score for each in actions] == [10, 10, 6]
    assert actions[-1].verdict.blame == culprit(actions) == "modeler_0"


@pytest.mark.slow
@pytest.mark.parametrize("pack", ["", ", compress=3"])
def test_a_model_of_joblib_harms_nobody_who_reads_it(pack: str) -> None:
    def by_joblib(code: str) -> str:
        assert PICKLED in code
        return "import joblib\n" + code.replace(PICKLED, "joblib.load('model.pkl')")

    actions = episode("modeler_0", f"{MODEL}joblib.dump(model, 'model.pkl'{pack})", NUMBERS, by_joblib)
    assert [each.verdict.score for each in actions] == [10, 10, 10]
    assert culprit(actions) is None


def test_backward_tracing_knows_formats_too() -> None:
    play = Play("dsbench", TABLE)
    engineer(play, facts(y_train={"plain": False, "format": "npy"}))
    error = "UnpicklingError: the STRING opcode argument must be quoted"
    crash = ran("", "error", error, opened=("X_train.pkl", "y_train.pkl"))
    play.act("modeler_0", code(LOADS["modeler_0"]), crash)
    play.act("modeler_0", "I stop.")
    play.act("analyst_0", code(LOADS["analyst_0"]), no_file("model.pkl"))
    play.act("analyst_0", "I stop.")
    outcome = Outcome(0.0, False, "missing", "no agent wrote submission.csv")
    trajectory = Trajectory("t", TABLE, 0, tuple(play.actions), outcome)
    assert attribute(trajectory, play.card).fractions[0] == 1


@pytest.mark.parametrize("line", ["model = Ridge(alpha='x').fit(X, y)", "raise ValueError('no')"])
def test_a_reader_that_fails_after_reading_has_itself_to_blame(line: str) -> None:
    play = Play("dsbench", TABLE)
    engineer(play, facts(y_train={"plain": False, "format": "joblib"}))
    work = f"y = joblib.load('y_train.pkl')\n{line}"
    error = 'Traceback:\n  File "<action>", line 2, in <module>\nValueError: no'
    for opened in (("X_train.pkl", "y_train.pkl"), None):
        verdict = play.act("modeler_0", code(work), ran("", "error", error, opened=opened))
        assert verdict.blame != "engineer_0"


READ = [
    ("y = joblib.load(\n    'y_train.pkl'\n)", 1),
    ("def get(name):\n    return pickle.load(open(name, 'rb'))\nget('y_train.pkl')", 2),
    ("try:\n    y = pd.read_pickle(path)\nexcept Exception as e:\n    raise RuntimeError('no') from e", 2),
    ("try:\n    y = pd.read_pickle(path)\nexcept Exception as e:\n    print(e)\n    sys.exit(1)", 0),
]


@pytest.mark.parametrize(("source", "line"), READ)
def test_a_reader_that_fails_over_another_format_is_excused(source: str, line: int) -> None:
    trace = f'Traceback:\n  File "<action>", line {line}, in <module>\nUnpicklingError: no\n' if line else ""
    chained = f'{trace}Traceback:\n  File "<action>", line 4, in <module>\nRuntimeError: no'

    def read(*opened: str, files: tuple[str, ...] = ()) -> Verdict:
        play = Play("dsbench", TABLE)
        engineer(play, facts(y_train={"plain": False, "format": "joblib"}))
        tool = ran("", "error", chained if "raise" in source else trace, files, opened or None)
        return play.act("modeler_0", code(source), tool)

    tables = ("X_train.pkl", "y_train.pkl")
    for verdict in (read(*tables), read("y_train.pkl", "report.txt", files=("report.txt",))):
        assert (verdict.score, verdict.blame) == (6, "engineer_0")
    assert (read().score, read().blame) == (6, None)  # unobserved: excused, and nobody is blamed
    for verdict in (read("y_train.pkl", "X_train.pkl"), read("X_train.pkl"), read("./")):
        assert verdict.score in (1, 2)
        assert verdict.blame == "modeler_0"


def test_a_reader_that_copes_with_another_format_is_judged_as_any() -> None:
    play = Play("dsbench", TABLE)
    probe = with_model(predictions=predictions(0.2))
    allowed = {"n_predictions": len(predictions(1.0)), "predictions": predictions(1.0)}
    probe |= {"y_train": {**probe["y_train"], "plain": False, "format": "npy"}, "allowed": allowed}
    engineer(play, probe)
    assert modeler(play, probe).blame == "modeler_0"


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [0, 2])
def test_an_old_protocol_is_as_good_as_a_new_one(protocol: int) -> None:
    more = f"{MODEL}pickle.dump(model, open('model.pkl', 'wb'), protocol={protocol})"
    assert episode("modeler_0", more, NUMBERS)[1].verdict.score == 10


@pytest.mark.slow
def test_a_full_workspace_is_the_fault_of_who_filled_it_even_if_half_a_model_is_written() -> None:
    more = "try:\n    open('pad', 'wb').write(bytes(1 << 30))\nexcept OSError:\n    pass"
    _, modeler_, analyst = episode("engineer_0", more, NUMBERS)
    assert modeler_.verdict.blame == analyst.verdict.blame == "engineer_0"
    assert (modeler_.verdict.score, analyst.verdict.score) == (6, 6)


def test_a_format_of_its_own_is_no_consequence_of_unsound_inputs() -> None:
    play = Play("dsbench", TABLE)
    leak = {"checks": {"target_leaked": ["price"]}}
    engineer(play, facts(**leak))
    verdict = modeler(
        play,
        {
            **with_model(plain=False, format="compressed", predictions=predictions(1.0)),
            **facts(**leak)["checks"],
        },
    )
    assert (verdict.score, verdict.blame) == (2, "modeler_0")


def test_who_reads_the_format_all_the_same_is_scored_for_that() -> None:
    play = Play("dsbench", TABLE)
    engineer(play)
    modeler(play, with_model(plain=False, format="compressed", predictions=predictions(1.0)))
    assert submit(play, graded(1.0)).score == 10


def test_a_format_that_is_not_read_here_is_never_bad_work() -> None:
    error = "CodeError: no package that reads parquet is installed"
    unknown = {"exists": True, "loads": False, "unknown": True, "error": error}
    play = Play("dsbench", TABLE)
    assert engineer(play, facts(X_train=unknown)).status == "abstain"
    crash = ran("", "error", "ImportError: no parquet engine")
    assert play.act("modeler_0", code(LOADS["modeler_0"]), crash).status == "abstain"


def test_the_table_with_too_many_rows_is_named() -> None:
    huge = facts(y_train={"rows": 10**8}, checks={"rows_match": False})
    assert "y_train.pkl is unusable" in engineer(Play("dsbench", TABLE), huge).reasoning
    few = facts(X_train={"rows": 60}, checks={"rows_match": False})
    assert "X_train.pkl is unusable" in engineer(Play("dsbench", TABLE), few).reasoning
