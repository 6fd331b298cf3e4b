"""Checks the texts that policies read and imitate byte for byte: tokenizers and weights depend on them.

If you change a prompt, a tool message or a scripted team on purpose, update these digests and train the demos
again.
"""

from __future__ import annotations

import hashlib
import sys
from typing import get_args

import pytest

from mappa_env.episode.episode import Episode
from mappa_env.episode.prompting import Prompter
from mappa_env.registration import find_card
from mappa_env.scripted import make_team
from mappa_env.types import RunStatus, ToolResult

CARDS = ("mathchat", "dsbench", "dsbench_sprint", "aime", "amc", "math")
TOOL_MESSAGES = {
    ("mathchat", "full"): "7b574ece31c0ebb6",
    ("mathchat", "brief"): "88242ad6ee92ce1e",
    ("dsbench", "brief"): "5a6d9fb55e693801",
    ("dsbench_sprint", "brief"): "5a6d9fb55e693801",
    ("aime", "brief"): "88242ad6ee92ce1e",
    ("amc", "brief"): "88242ad6ee92ce1e",
    ("math", "brief"): "88242ad6ee92ce1e",
    ("mathchat", "compact"): "14e2bd2dc18d259c",
    ("dsbench", "full"): "29609c6bf79551ee",
    ("dsbench", "compact"): "78f590ca95b1b348",
    ("dsbench_sprint", "full"): "29609c6bf79551ee",
    ("dsbench_sprint", "compact"): "78f590ca95b1b348",
    ("aime", "full"): "7b574ece31c0ebb6",
    ("aime", "compact"): "14e2bd2dc18d259c",
    ("amc", "full"): "7b574ece31c0ebb6",
    ("amc", "compact"): "14e2bd2dc18d259c",
    ("math", "full"): "7b574ece31c0ebb6",
    ("math", "compact"): "14e2bd2dc18d259c",
}
EPISODES = {
    ("mathchat", "full", "local", "expert", 12): "e255d97c8f21bb23",
    ("mathchat", "compact", "local", "faulty", 60): "6719db7c126f8227",
    ("mathchat", "brief", "calculator", "faulty", 60): "ed741c465870d209",
    ("dsbench_sprint", "brief", "null", "faulty", 24): "c7443366f8df5d56",
    ("dsbench", "full", "null", "expert", 4): "41840b0cd79177cb",
    ("dsbench", "compact", "null", "faulty", 8): "ed6d98c0837ae90d",
    ("dsbench_sprint", "compact", "null", "faulty", 24): "2ef021c8b95ce8bb",
}


def digest(texts: list[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def tool_messages(name: str, length: str) -> list[str]:
    card = find_card(name)
    prompter = Prompter(card, length)
    found = []
    for status in get_args(RunStatus):
        for exit_code, feedback, left in ((None, "", 1), (1, "look again", 2)):
            tool = ToolResult(
                status=status,
                exit_code=exit_code,
                stdout="4\n" * 30,
                stderr="Traceback\nValueError: x\n" if exit_code else "",
                truncated=17 if exit_code else 0,
                wall_s=1.0,
                cpu_s=1.0,
                peak_rss=1,
                files=(),
                isolation="full",
                trust="kernel",
            )
            context = {
                "tool": tool,
                "feedback": feedback,
                "turns_left": left,
                "files": ["a.csv"],
                "agent": card.team.agents[0],
            }
            found.append(prompter.render("tool", context)["content"])
    return found


def episodes(name: str, length: str, sandbox: str, kind: str, count: int) -> list[str]:
    """Messages and actions of whole episodes."""
    card = find_card(name)
    episode = Episode(card, coach="off", sandbox=sandbox, prompts=length)
    team = make_team(card.scripted or "", kind, style=length)  # type: ignore[arg-type]
    found = []
    for seed in range(count):
        episode.reset(seed=seed)
        team.reset(episode.task, seed)
        while episode.agent:
            found += [message["content"] for message in episode.messages()]
            found.append(team.act(episode.agent, episode.turn, episode.actions))
            episode.act(found[-1])
    episode.close()
    return found


@pytest.mark.parametrize("name", CARDS)
@pytest.mark.parametrize("length", ["full", "brief", "compact"])
def test_tool_messages_have_not_changed(name: str, length: str) -> None:
    assert digest(tool_messages(name, length)) == TOOL_MESSAGES[name, length]


@pytest.mark.parametrize(("name", "length", "sandbox", "kind", "count"), list(EPISODES))
def test_prompts_and_scripted_actions_have_not_changed(
    name: str, length: str, sandbox: str, kind: str, count: int
) -> None:
    if sandbox in ("local", "calculator") and kind == "faulty" and sys.version_info[:2] != (3, 11):
        pytest.skip("policies read Python's error messages here, and those of 3.11 are pinned")
    assert (
        digest(episodes(name, length, sandbox, kind, count)) == EPISODES[name, length, sandbox, kind, count]
    )
