"""One DSBench episode leaves the same trail, digest by digest, whichever sandbox its code runs in."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping
from typing import Any

import pytest
from fake_fusion import FakeFusion

import envs_registry
from mappa_env.cards import read_card
from mappa_env.episode import Episode
from mappa_env.errors import SandboxError
from mappa_env.sandbox.local import LocalSandbox
from mappa_env.scripted import make_team

CARD = read_card(envs_registry.ROOT / "dsbench")
Trail = list[tuple[str, int, str, str, str, str]]


def trail(sandbox: str | Mapping[str, Any]) -> Trail:
    """(agent, step, path, operation, digest, status) of every change of a scripted expert's episode."""
    episode = Episode(CARD, sandbox=sandbox, prompts="compact", limits={"wall_s": 120})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        team = make_team("dsbench", "expert")
        episode.reset(seed=3)
        team.reset(episode.task, seed=3)
        while episode.agent is not None:
            episode.act(team.act(episode.agent, episode.turn, episode.actions))
    found = [
        (change.agent, change.step, change.path, change.op, change.sha256, action.tool.status)
        for action in episode.actions
        if action.tool is not None
        for change in action.tool.files
    ]
    episode.close()
    return found


@pytest.fixture(scope="module")
def expected() -> Trail:
    found = trail("process")
    assert {path for _, _, path, *_ in found} >= {"submission.csv"}
    assert all(len(digest) == 64 and status == "ok" for *_, digest, status in found)
    return found


@pytest.mark.parametrize("level", ["full", "landlock"])
def test_local(level: str, expected: Trail) -> None:
    try:
        assert LocalSandbox(level=level).isolation == level
    except SandboxError as error:
        pytest.skip(f"this machine does not offer it: {error}")
    assert trail({"name": "local", "level": level}) == expected


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_bwrap(expected: Trail) -> None:
    assert trail("bwrap") == expected


def test_fusion_as_faked(expected: Trail) -> None:
    """A FAKE server: the protocol is real, the machine behind it is this one."""
    with FakeFusion() as server:
        assert trail(f"fusion:{server.url}") == expected
