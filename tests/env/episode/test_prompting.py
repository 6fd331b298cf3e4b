"""Templates of anyone's card: what they see, how they fail; and what a probe may say."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import envs_registry
from mappa_env.cards import read_card
from mappa_env.errors import CardError, OptionError
from mappa_env.probing import probe
from mappa_env.prompting import Prompter, clip
from mappa_env.sandbox import Limits, make_sandbox
from mappa_env.stays import earlier_stays
from mappa_env.types import ActionRecord, Task, ToolResult, Verdict
from mappa_env.workspace import Workspace

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
        "{{ task.truth }}", "{{ task['truth'] }}", "{{ task|attr('truth') }}", "{{ task.__class__ }}",
        "{{ task.__class__.__mro__ }}", "{{ ''.__class__.__base__.__subclasses__() }}", "{{ nothing }}",
        "{{ task.nothing }}", "{{ 1 / 0 }}", "{{ 1 + 'a' }}", "{{ [][1] }}", "{{ range(10 ** 9)|list }}",
        "{{ task.meta.update({}) or task.truth }}", "{% include 'x' %}", "{{ clip.__globals__ }}",
    ],
)  # fmt: skip
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
    with pytest.raises(CardError, match="'solver' failed: ZeroDivisionError"):
        render("{{ 1 / 0 }}")
    with pytest.raises(OptionError, match="Did you mean 'compact'"):
        Prompter(CARD, "compct")


@pytest.mark.parametrize("limit", [5, 8, 20, 99])
def test_clip_keeps_both_ends_within_the_limit(limit: int) -> None:
    assert clip("short"[:limit], limit) == "short"[:limit]
    kept = clip("a" * 50 + "b" * 50, limit)
    assert len(kept) <= max(limit, 7)  # a letter of each end is always kept
    assert (kept[0], kept[-1]) == ("a", "b")


def record(agent: str, answer: str, tool: ToolResult | None = None, code: str | None = None) -> ActionRecord:
    return ActionRecord(
        0, agent, 0, (), f"<think>T</think>{answer}", "T", answer, code, tool,
        Verdict("ok", 1.0, f"about {answer}"), 1.0, True, ("", "", 0), 0, False,
    )  # fmt: skip


def test_a_stay_is_told_whole() -> None:
    actions = [
        record("solver_0", "plan"),
        record("coder_0", "first", ToolResult("error", 1, "1\n", ""), "code 1"),
        record("coder_0", "second", ToolResult("ok", 0, " 2\n", ""), "code 2"),
        record("coder_0", ""),
    ]
    solver, coder = earlier_stays(CARD.team, actions, "verifier_0", feedback=True)
    assert (solver["text"], solver["code"], solver["output"], solver["status"]) == ("plan", "", "", "")
    assert coder["text"] == "first\nsecond"
    assert (coder["code"], coder["output"], coder["status"]) == ("code 2", "2", "ok")
    assert coder["feedback"] == "about first\nabout second\nabout "
    assert earlier_stays(CARD.team, actions, "solver_0", feedback=True) == []
    quiet = earlier_stays(CARD.team, actions, "verifier_0", feedback=False)
    assert [stay["feedback"] for stay in quiet] == ["", ""]


@pytest.mark.parametrize(
    ("source", "facts"),
    [
        ("print('PROBE {\"a\": 1}')\nprint('PROBE {\"a\": 2}')\nprint('noise')", {"a": 2}),
        ("print('no facts')", {"probe_failed": "ok"}),
        ("print('PROBE [1]')", {"probe_failed": "ok"}),
        ("print('PROBE {')", {"probe_failed": "ok"}),
        ("print('PROBE ' + '[' * 10000)", {"probe_failed": "ok"}),
        ("1 / 0", {"probe_failed": "error"}),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", {"probe_failed": "killed"}),
    ],
)
def test_a_probe_gives_facts_or_says_how_it_failed(source: str, facts: dict[str, Any]) -> None:
    with Workspace() as workspace:
        assert probe(make_sandbox("process"), workspace, source, Limits()) == facts


def test_a_probe_changes_nothing_and_sees_regular_files_alone() -> None:
    source = """
import json, os
print('PROBE ' + json.dumps({'files': sorted(os.listdir())}))
open('a', 'w').write('changed'); os.mkdir('new')
"""
    with Workspace() as workspace:
        workspace.put("a", b"kept")
        (workspace.path / "link").symlink_to("/etc/passwd")
        before = workspace.scan()
        assert probe(make_sandbox("process"), workspace, source, Limits()) == {"files": ["a"]}
        assert workspace.changes(before, workspace.scan()) == ()
        assert workspace.read("a") == b"kept"
