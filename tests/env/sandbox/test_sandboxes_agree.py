"""Every sandbox gives an episode the same file history, digest by digest, and the same order of sets."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping
from typing import Any

import pytest

import envs_registry
from fake_fusion import FakeFusion
from mappa_env.cards import read_card
from mappa_env.episode.episode import Episode
from mappa_env.errors import SandboxError
from mappa_env.sandbox import Limits, make_sandbox
from mappa_env.sandbox.local import LocalSandbox
from mappa_env.scripted import make_team

ORDER = """
import subprocess, sys
names = {"train.csv", "id", "label", "weight", "colour", b"bytes", "\\u20ac"}
print(list(names), hash("word"), flush=True)
subprocess.run([sys.executable, "-S", "-c", "print(list({'a', 'b', 'c', 'd'}), hash('word'))"])
"""
"""Prints the order of sets, in the action itself and in an interpreter that it starts."""
CARD = read_card(envs_registry.ROOT / "dsbench")
FileHistory = list[tuple[str, int, str, str, str, str]]


def file_history(sandbox: str | Mapping[str, Any]) -> FileHistory:
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


def orders(sandbox: str | Mapping[str, Any]) -> set[str]:
    """What ``ORDER`` prints for several seeds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = make_sandbox(sandbox)
        with made.open_workspace() as workspace:
            results = [made.run(workspace, ORDER, Limits(wall_s=120), seed=seed) for seed in (0, 7, 2**40)]
    assert all(result.status == "ok" for result in results), results
    return {result.stdout for result in results}


@pytest.fixture(scope="module")
def order() -> set[str]:
    found = orders("process")
    assert len(found) == 1
    return found


@pytest.fixture(scope="module")
def expected() -> FileHistory:
    found = file_history("process")
    assert {path for _, _, path, *_ in found} >= {"submission.csv"}
    assert all(len(digest) == 64 and status == "ok" for *_, digest, status in found)
    return found


@pytest.mark.parametrize("level", ["full", "landlock"])
def test_local(level: str, expected: FileHistory, order: set[str]) -> None:
    try:
        assert LocalSandbox(level=level).isolation == level
    except SandboxError as error:
        pytest.skip(f"this machine does not support it: {error}")
    assert file_history({"name": "local", "level": level}) == expected
    assert orders({"name": "local", "level": level}) == order


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_bwrap(expected: FileHistory, order: set[str]) -> None:
    assert file_history("bwrap") == expected
    assert orders("bwrap") == order


def test_fusion_as_faked(expected: FileHistory, order: set[str]) -> None:
    """A FAKE server: the protocol is real, but the code runs on this machine."""
    with FakeFusion() as server:
        assert file_history(f"fusion:{server.url}") == expected
        assert orders(f"fusion:{server.url}") == order
