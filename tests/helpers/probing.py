"""Shows files to the tabular probe as an episode does: in a workspace of the local sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym

from mappa_env import team_env
from mappa_env.parsing import parse
from mappa_env.probes import Site, make_probe
from mappa_env.sandbox import make_sandbox
from mappa_env.sandbox.base import Limits
from mappa_env.scripted import make_team
from mappa_env.types import ActionRecord, FileChange, Task
from mappa_env.workspace.workspace import Workspace

SEED = 7
GIVEN = ("train.csv", "test.csv", "sample_submission.csv")


def workspace_of(folder: Path) -> Workspace:
    """A workspace with the files of ``folder``."""
    workspace = make_sandbox("local").open_workspace()
    for path in sorted(folder.iterdir()):
        if path.is_file():
            workspace.put(path.name, path.read_bytes())
        else:
            workspace.present[path.name] = FileChange(path.name, "type_changed", 0, "skipped: dir", "dir")
    return workspace


def site_of(workspace: Workspace) -> Site:
    """Where the probe looks; the task's files are those in the workspace."""
    given = {name: workspace.read(name) for name in GIVEN if name in workspace.present}
    task = Task("t", "", "accuracy", files=given)
    limits = Limits(wall_s=60, memory_mb=3072)
    return Site(make_sandbox("local"), workspace, task, limits, SEED)


def look_at(workspace: Workspace) -> dict[str, Any]:
    """What the probe says of a workspace; the task's files are those in it."""
    return dict(make_probe("tabular").look(site_of(workspace)))


def look(folder: Path) -> dict[str, Any]:
    """What the probe says of the files of ``folder``."""
    with workspace_of(folder) as workspace:
        return look_at(workspace)


def code_of(text: str) -> str:
    code = parse(text).code
    assert code is not None
    return code


def played(engineer: str, modeler: str, seed: int) -> list[ActionRecord]:
    """The actions with code of engineer and modeler, whose scripts end with this code."""
    env = gym.make("mappa/DSBench-v0", coach="rubric")
    _, info = env.reset(seed=seed)
    episode = team_env(env).episode
    team = make_team("dsbench", "expert")
    team.reset(episode.task, seed=1)
    for agent, more in (("engineer_0", engineer), ("modeler_0", modeler)):
        while info["agent"] == agent:
            action = team.act(agent, episode.turn, episode.actions)
            if "```" in action and more:
                action = f"```python\n{code_of(action)}\n{more}\n```"
            _, _, _, _, info = env.step(action)
            tool = episode.actions[-1].tool
            assert tool is None or tool.status == "ok", tool.stderr
        if not modeler:
            break
    ran = [action for action in episode.actions if action.tool is not None]
    env.close()
    return ran


def rewards(engineer: str = "", modeler: str = "", seed: int = 3) -> list[float]:
    """What engineer and modeler earn whose scripts end with this code."""
    return [action.reward for action in played(engineer, modeler, seed)]
