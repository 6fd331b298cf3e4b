"""Templates of untrusted cards: what they can read and how they fail."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import envs_registry
from mappa_env.cards import read_card
from mappa_env.episode.earlier import earlier_segments
from mappa_env.episode.episode import Episode
from mappa_env.episode.prompting import Prompter, clip
from mappa_env.errors import CardError, OptionError
from mappa_env.types import ActionRecord, Task, ToolResult, Verdict
from recorded import recorded

CARD = read_card(envs_registry.ROOT / "mathchat")
TASK = Task("t", "a problem", "exact_match", truth={"answer": "GOLD"}, meta={"n": 3})


def render(source: str, **context: Any) -> str:
    card = dataclasses.replace(CARD, prompts={**CARD.prompts, ("full", "solver"): source})
    return Prompter(card).render("solver", {"task": TASK, "agent": CARD.team["solver_0"], **context})[
        "content"
    ]


def test_templates_see_public_fields_alone() -> None:
    assert render("{{ task.prompt }} {{ task.meta.n }} {{ agent.role }}") == "a problem 3 solver"


@pytest.mark.parametrize(
    "source",
    [
        "{{ task.truth }}",
        "{{ task['truth'] }}",
        "{{ task|attr('truth') }}",
        "{{ task.__class__ }}",
        "{{ task.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ nothing }}",
        "{{ task.nothing }}",
        "{{ 1 / 0 }}",
        "{{ 1 + 'a' }}",
        "{{ [][1] }}",
        "{{ range(10 ** 9)|list }}",
        "{{ task.meta.update({}) or task.truth }}",
        "{% include 'x' %}",
        "{{ clip.__globals__ }}",
    ],
)
def test_what_a_template_may_not_do_is_a_card_error_without_the_truth(source: str) -> None:
    with pytest.raises(CardError) as error:
        render(source)
    assert "GOLD" not in str(error.value)


def test_other_ways_to_the_truth_show_nothing() -> None:
    for source in ("{{ task }}", "{{ task|string }}", "{{ '%r' % task }}", "{{ '{0.prompt}'.format(task) }}"):
        assert "GOLD" not in render(source)
    with pytest.raises(CardError):
        render("{{ '{0.truth}'.format(task) }}")


def test_errors_name_the_template() -> None:
    with pytest.raises(CardError, match=r"full/solver\.jinja line 2"):
        render("fine\n{% if %}")
    with pytest.raises(CardError, match=r"full/solver\.jinja line 3: ZeroDivisionError"):
        render("fine\nfine\n{{ 1 / 0 }}")
    with pytest.raises(OptionError, match="Did you mean 'compact'"):
        Prompter(CARD, "compct")


@pytest.mark.parametrize("limit", [5, 8, 20, 99])
def test_clip_keeps_both_ends_within_the_limit(limit: int) -> None:
    assert clip("short"[:limit], limit) == "short"[:limit]
    kept = clip("a" * 50 + "b" * 50, limit)
    assert len(kept) <= max(limit, 7)  # a letter of each end is always kept
    assert (kept[0], kept[-1]) == ("a", "b")


def record(agent: str, answer: str, tool: ToolResult | None = None, code: str | None = None) -> ActionRecord:
    said = {"action": f"<think>T</think>{answer}", "thinking": "T", "answer": answer, "code": code}
    last = {"last_turn": tool is None}
    return recorded(agent, **said, **last, tool=tool, verdict=Verdict("ok", 1.0, f"about {answer}"))


def test_a_segment_is_shown_whole() -> None:
    actions = [
        record("solver_0", "plan"),
        record("coder_0", "first", ToolResult("error", 1, "1\n", ""), "code 1"),
        record("coder_0", "second", ToolResult("ok", 0, " 2\n", ""), "code 2"),
        record("coder_0", ""),
    ]
    seen, nothing = CARD.order.fresh(actions), CARD.order.fresh([])
    solver, coder = earlier_segments(CARD.team, seen, feedback=True)
    assert (solver["text"], solver["code"], solver["output"], solver["status"]) == ("plan", "", "", "")
    assert coder["text"] == "first\nsecond"
    assert (coder["code"], coder["output"], coder["status"]) == ("code 2", "2", "ok")
    assert coder["feedback"] == "about first\nabout second\nabout "
    assert earlier_segments(CARD.team, nothing, feedback=True) == []
    quiet = earlier_segments(CARD.team, seen, feedback=False)
    assert [segment["feedback"] for segment in quiet] == ["", ""]


@pytest.mark.parametrize("name", ["mathchat", "dsbench", "dsbench_sprint"])
def test_prompts_state_the_limits_that_hold(name: str) -> None:
    episode = Episode(read_card(envs_registry.ROOT / name), coach="off", sandbox="null", limits={"wall_s": 7})
    episode.reset(seed=0)
    while (agent := episode.agent) is not None and not episode.card.team[agent].tools:
        episode.act("A plan.")
    assert agent is not None
    assert "for at most 7 seconds" in episode.prompt()


@pytest.mark.parametrize("name", ["mathchat", "dsbench"])
def test_a_tool_message_says_that_code_did_not_run_where_the_sandbox_was_unavailable(name: str) -> None:
    card = read_card(envs_registry.ROOT / name)
    agent = next(spec for spec in card.team.agents if spec.tools)
    tool = ToolResult("unavailable", None, "", "no server")
    context = {"tool": tool, "feedback": "", "turns_left": 1, "files": [], "agent": agent}
    said = Prompter(card).render("tool", context)["content"]
    assert "did not run" in said
    assert "no server" in said
    assert "ended with status" not in said
