"""A full workspace, in real episodes: who cannot write is excused, and who took the space is named."""

from __future__ import annotations

import gymnasium as gym
import pytest

from mappa_env import team_env
from mappa_env.scripted import make_team
from mappa_env.types import ActionRecord, Use
from mappa_env.workspace.snapshot import MAX_ENTRIES
from probing import code_of

MB = 8
"""The quota; the expert's own files take less than a tenth of it."""
BIG = f"""
with open('junk.bin', 'wb') as junk:
    junk.write(b'1' * ({MB} * 2**20 - 2**18))
"""
UP_TO_THE_LAST = """
with open('junk.bin', 'wb', 0) as junk:
    try:
        while True:
            junk.write(b'1' * 4096)
    except OSError:
        pass
"""
FOLDERS = f"""
import os
try:
    for number in range({MAX_ENTRIES}):
        os.mkdir(f'd{{number}}')
except OSError:
    pass
"""
HALF = f"open('data.bin', 'wb').write(b'1' * ({MB} * 2**19 - 2**20))"
TEMPORARY = """
import os
try:
    with open('own.bin', 'wb', 0) as own:
        while True:
            own.write(b'1' * 4096)
finally:
    os.unlink('own.bin')
"""
CLAIM = "raise OSError(28, 'No space left on device')"
WORDLESS = """
with open('model.pkl', 'wb', 0) as model:
    model.write(b'1' * 2**17)
raise OSError('131072 requested and fewer written')
"""


def play(engineer: str, modeler: str | None = None) -> list[ActionRecord]:
    """The actions with code of an engineer whose script ends with ``engineer``, and of the modeler.

    ``modeler``: begins the modeler's script, or nothing.
    """
    env = gym.make("mappa/DSBench-v0", coach="rubric", limits={"disk_mb": MB})
    try:
        _, info = env.reset(seed=3)
        episode = team_env(env).episode
        team = make_team("dsbench", "expert")
        team.reset(episode.task, seed=1)
        while info["agent"] in ("engineer_0", "modeler_0"):
            text = team.act(info["agent"], episode.turn, episode.actions)
            if "```" in text and info["agent"] == "engineer_0":
                text = f"```python\n{code_of(text)}\n{engineer}\n```"
            elif "```" in text and modeler is not None:
                text = f"```python\nimport pandas\npandas.read_pickle('X_train.pkl')\n{modeler}\n```"
            _, _, _, _, info = env.step(text)
        return [action for action in episode.actions if action.tool is not None]
    finally:
        env.close()


@pytest.mark.slow
@pytest.mark.parametrize("fill", [BIG, UP_TO_THE_LAST, FOLDERS], ids=["big", "up_to_the_last", "folders"])
def test_who_left_no_space_is_to_blame_for_what_cannot_be_written(fill: str) -> None:
    *_, engineer, modeler = play(fill)
    assert (engineer.agent, modeler.agent) == ("engineer_0", "modeler_0")
    assert modeler.tool is not None
    assert modeler.tool.status in ("error", "disk_limit"), modeler.tool
    assert (modeler.verdict.blame, modeler.verdict.score) == ("engineer_0", 6), modeler.verdict


@pytest.mark.slow
def test_large_files_that_leave_enough_are_no_fault() -> None:
    *_, modeler = play(HALF)
    *_, alone = play("")
    assert modeler.verdict == alone.verdict
    assert modeler.verdict.score is not None
    assert modeler.verdict.score > 6


@pytest.mark.slow
@pytest.mark.parametrize(
    "modeler", [TEMPORARY, CLAIM, UP_TO_THE_LAST + CLAIM], ids=["temporary", "claim", "own_file"]
)
def test_who_fills_the_workspace_itself_is_not_excused(modeler: str) -> None:
    """Whether its file is still there, is gone, or never was."""
    *_, last = play(HALF, modeler)
    assert last.tool is not None
    assert last.tool.status in ("error", "disk_limit"), last.tool
    assert (last.verdict.blame, last.verdict.score) == ("modeler_0", 1), last.verdict


@pytest.mark.slow
def test_who_fills_what_is_left_and_then_blunders_is_not_excused() -> None:
    more_than_half = f"open('data.bin', 'wb').write(b'1' * ({MB} * 2**19 + 2**20))"
    *_, last = play(more_than_half, UP_TO_THE_LAST + "undefined_name")
    assert (last.verdict.blame, last.verdict.score) == ("modeler_0", 1), last.verdict


@pytest.mark.slow
def test_a_full_workspace_is_seen_whatever_the_exception_says() -> None:
    *_, last = play(BIG, WORDLESS)
    assert last.tool is not None
    assert last.tool.status == "error"
    assert (last.verdict.blame, last.verdict.score) == ("engineer_0", 6), last.verdict


@pytest.mark.slow
def test_the_evidence_holds_the_quota_and_who_used_it() -> None:
    actions = play(FOLDERS)
    used: dict[str, Use] = {}
    for action in actions:
        space = action.tool.space if action.tool else None
        assert space is not None
        assert space.quota.entries == MAX_ENTRIES
        assert space.quota.size >= MB << 20
        assert not used or space.before == used
        used = dict(space.after)
    assert set(used) <= {"", "engineer_0", "modeler_0"}
    assert sum(use.entries for use in used.values()) <= MAX_ENTRIES
    assert used["engineer_0"].entries > MAX_ENTRIES / 2 > used["engineer_0"].size / 4096
