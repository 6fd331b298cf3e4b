"""One preflight a command: the processes that it starts do not repeat it, nor the test call to the coach."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_llm import FakeServer, serving
from mappa_rl.cli import main
from mappa_rl.commands.fleet import plan_shapings
from mappa_rl.commands.train import problems_of_rest
from mappa_rl.config import load_config
from tiny_run import TINY

SMALL = (
    *TINY,
    "warmstart.episodes=12",
    "warmstart.steps=4",
    "rollout.episodes_per_step=4",
    "optim.minibatches=1",
    "run.steps=1",
)


def calls_of_preflight(fake: FakeServer) -> int:
    """Calls about the action that only the preflight plays."""
    return sum("print(6 * 7)" in call.text for call in fake.calls)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["train", "demo", "--seeds", "0,1"], marks=pytest.mark.large),
        ["train", "demo", "run.processes=2"],
        pytest.param(["shape", "demo", "--shapings", "process,mixed"], marks=pytest.mark.large),
    ],
    ids=["seeds", "processes", "shapings"],
)
def test_the_coach_gets_one_test_call(command: list[str], tmp_path: Path) -> None:
    with serving("openai") as fake:
        coach = f"env.coach={{name: 'openai:m@{fake.url}'}}"
        assert main([*command, coach, *SMALL, f"out={tmp_path / 'run'}"]) == 0
        assert calls_of_preflight(fake) == 1
        assert len(fake.calls) > 1  # training asked it too


def test_resuming_several_runs_makes_one_test_call(tmp_path: Path) -> None:
    with serving("openai") as fake:
        coach = f"env.coach={{name: 'openai:m@{fake.url}'}}"
        config = load_config("demo", [coach, *SMALL])
        folders = plan_shapings(config, tmp_path, [0, 1], ["process", "mixed"])
        assert problems_of_rest(folders, tmp_path, 1) == []
        assert calls_of_preflight(fake) == len(fake.calls) == 1


def test_a_new_run_is_always_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "demo", "--checked"]) == 2
    assert "--checked needs --resume" in capsys.readouterr().err
