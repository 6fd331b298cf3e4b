"""Any bad input gives a clear error or a low score with a reason, without hanging or losing anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import pettingzoo
import pytest

from mappa_env import team_env
from mappa_env.errors import DataError, DataMissingError, EpisodeError, OptionError, UnknownTaskError
from mappa_env.scripted import make_team
from mappa_env.trace.record import read
from mappa_env.types import Trajectory

ID = "mappa/MathChat-v0"


def play(env: gym.Env[Any, str], texts: list[str]) -> list[Any]:
    """The steps of one episode; the last text is repeated until it is over."""
    steps, over = [], False
    env.reset(seed=4)
    while not over:
        step = env.step(texts[min(len(steps), len(texts) - 1)])
        steps.append(step)
        over = step[2]
    return steps


# -- tasks and data ---------------------------------------------------------------------------------------


def test_unknown_task_ids_name_the_nearest() -> None:
    env = gym.make(ID, sandbox="null")
    known = team_env(env).task_ids[0]
    with pytest.raises(UnknownTaskError, match=r"has [0-9]+ ids.* Did you mean 'train-arith"):
        env.reset(options={"task_id": known[:-1]})
    with pytest.raises(UnknownTaskError, match="unknown task id 'nonsense'"):
        env.reset(options={"task_id": "nonsense"})
    aec: Any = pettingzoo.make("aec", ID, sandbox="null")
    with pytest.raises(UnknownTaskError, match="nonsense"):
        aec.reset(options={"task_id": "nonsense"})
    vector = gym.make_vec(ID, num_envs=2, sandbox="null")
    with pytest.raises(UnknownTaskError, match="nonsense"):
        vector.reset(options={"task_id": "nonsense"})
    _, info = env.reset(seed=0, options={"task_id": known})  # an error leaves the environment usable
    assert info["task_id"] == known


def test_missing_data_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAPPA_DATA", str(tmp_path))
    with pytest.raises(DataMissingError, match="mappa-env data add aime PATH"):
        gym.make("mappa/AIME-v0")
    with pytest.raises(DataMissingError, match="data add amc PATH --split eval"):
        gym.make("mappa/AMC-v0", tasks="eval")


def test_a_file_of_tasks_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "tasks.json").write_bytes(b"\xff\xfe not JSON")
    with pytest.raises(DataError, match=r"tasks\.json"):
        gym.make("mappa/AIME-v0", tasks=str(tmp_path / "tasks.json"))


def test_calls_out_of_order() -> None:
    env = gym.make(ID, sandbox="null", disable_env_checker=True).unwrapped
    with pytest.raises(EpisodeError, match=r"call reset\(\) first"):
        env.step("x")
    play(env, ["x"])
    with pytest.raises(EpisodeError, match="over"):
        env.step("x")
    with pytest.raises(TypeError, match="an action is a str, found int: 3"):
        env.step(3)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:.*rgb_array:UserWarning")
def test_render_modes_are_checked() -> None:
    with pytest.raises(OptionError, match="render_mode='rgb_array'"):
        gym.make(ID, render_mode="rgb_array")


# -- texts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\x00",
        "\ud800\udfff",
        "\u202e\x1b]0;x\x07",
        "x" * 10_000_000,
        "\\boxed{" * 50_000,
        "```python\n" * 50_000,
        "<think>" * 50_000,
        "```python\nprint('a\x00b')\n```",
        "```python\n\ud800\n```",
        "```python\nprint('\\ud800')\n```",
        "```python\n" + "x = 1\n" * 200_000 + "```",
        "\\boxed{10^{10^{10}}}",
        "\\boxed{" + "(" * 3000 + "}",
    ],
    ids=lambda text: ascii(text[:24]),
)
def test_any_text_through_a_whole_episode(text: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    env = gym.make(ID, record=str(path))
    steps = play(env, [text])
    env.close()
    *_, info = steps[-1]
    assert info["outcome/success"] is False
    assert info["outcome/score"] == 0.0
    for _, reward, _, _, info in steps:
        assert 0.0 <= reward <= 6.0  # an agent to whom nothing usable was handed on, and that stops
        assert info["coach/status"] in ("ok", "abstain")
    (trajectory,) = read(path)
    assert trajectory.outcome is not None
    assert trajectory.outcome.reason
    assert len(trajectory.actions) == len(steps)
    assert max(len(action.action) for action in trajectory.actions) <= 1_000_100


# -- workspaces -------------------------------------------------------------------------------------------


def odd_files(secret: Path) -> str:
    return f"""```python
import os, socket
os.mkfifo('pipe')
os.symlink('/etc/passwd', 'passwd.csv')
os.symlink({str(secret)!r}, 'submission.csv')
os.symlink('.', 'loop')
open('json.py', 'w').write('raise SystemExit("hijacked")')
open('pandas.py', 'w').write('raise SystemExit("hijacked")')
open('sitecustomize.py', 'w').write('raise SystemExit("hijacked")')
open('a\\nb', 'w').write('x')
os.mkdir('deep'); os.makedirs('/'.join(['deep'] * 40))
socket.socket(socket.AF_UNIX).bind('sock')
open('unreadable', 'w').write('x'); os.chmod('unreadable', 0)
print('made')
```"""


@pytest.mark.parametrize("env_id", [ID, "mappa/DSBench-v0"])
def test_odd_files_in_the_workspace(env_id: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("TOP-SECRET")
    path = tmp_path / "trace.jsonl"
    env = gym.make(env_id, sandbox="process", record=str(path))  # the only one in which code can create them
    work = odd_files(secret)
    again = "```python\nimport json\nprint(json.dumps([1]))\n```"
    texts = ["plan: 1", work, again] if env_id == ID else [work, again, "done"]
    steps = play(env, texts)
    env.close()
    assert steps[-1][4]["outcome/success"] is False
    (trajectory,) = read(path)
    made = trajectory.actions[1 if env_id == ID else 0].tool
    assert made is not None
    assert made.stdout == "made\n", made.stderr
    kinds = {file.path: file.kind for file in made.files}
    assert kinds["pipe"] == "fifo"
    assert kinds["passwd.csv"] == "link"
    assert kinds["sock"] == "socket"
    assert kinds["json.py"] == "file"
    assert secret.read_text() == "TOP-SECRET"
    text = path.read_text("utf-8")
    assert "TOP-SECRET" not in text
    assert "root:x:" not in text


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    env = gym.make(ID)
    for _ in range(2):
        play(env, ["plan: 1", "```python\nopen('a', 'w').write('x')\nimport os; os.chmod('.', 0)\n```"])
    env.close()
    assert os.listdir(tmp_path) == []


# -- submissions ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def expert_episode() -> Trajectory:
    return dsbench("expert")


def dsbench(kind: str, fault: str = "") -> Trajectory:
    env = gym.make("mappa/DSBench-v0")
    env.reset(seed=2)
    episode = team_env(env).episode
    team = make_team("dsbench", kind, agent="analyst_0" if fault else "", fault=fault)
    team.reset(episode.task, 2)
    while not episode.over:
        env.step(team.act(episode.agent, episode.turn, episode.actions))
    trajectory: Trajectory = episode.trajectory
    env.close()
    return trajectory


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["nan_predictions", "duplicate_ids", "wrong_header", "row_subset"])
def test_bad_submissions_get_a_low_score_and_a_reason(fault: str, expert_episode: Trajectory) -> None:
    trajectory = dsbench("single", fault)
    good, bad = expert_episode.outcome, trajectory.outcome
    assert good is not None
    assert bad is not None
    assert good.status == "ok"
    assert bad.status != "ok"
    assert bad.reason
    assert (bad.score, bad.success) == (0.0, False)
    writing = [a for a in trajectory.actions if a.agent == "analyst_0" and a.tool is not None][-1]
    honest = [a for a in expert_episode.actions if a.agent == "analyst_0" and a.tool is not None][-1]
    assert writing.reward < honest.reward


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"limits": {"wall_s": float("nan")}}, "limits.wall_s must be a positive number"),
        ({"limits": {"wall_s": float("inf")}}, "limits.wall_s must be a positive number"),
        ({"limits": {"wall_s": "30"}}, "limits.wall_s must be a positive number"),
        ({"limits": {"memory_mb": 1500.5}}, "limits.memory_mb must be a positive integer"),
        ({"limits": {"memory_mb": 10**30}}, "below 1e9"),
        ({"limits": {"memory": 5}}, "Did you mean 'memory_mb'"),
        ({"limits": {1: 2}}, "limits=.* must be a mapping of names"),
        ({"task_options": "x"}, "task_options='x' must be a mapping of names"),
        ({"task_options": {1: 2}}, "must be a mapping of names"),
        ({"coach": None}, "coach=None must be a name, or a mapping"),
        ({"sandbox": ["local"]}, "must be a name, or a mapping"),
        ({"shaping": 0}, "must be a name, or a mapping"),
    ],
)
def test_options_of_the_wrong_kind_are_named(options: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        gym.make(ID, **{"sandbox": "null", **options})
