"""Actions put before the rubric, from facts that a test writes down."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from mappa_env.cards import read_card
from mappa_env.coach import make_coach
from mappa_env.data import load_tasks
from mappa_env.parsing import parse
from mappa_env.types import ActionRecord, Evidence, FileChange, Outcome, RunStatus, Task, ToolResult, Verdict
from mappa_env.workspace.changes import apply
from paths import REGISTRY

CARDS = {name: read_card(REGISTRY / name) for name in ("mathchat", "dsbench")}
SUM = Task("t", "What is 3 times 4, plus 2?", "exact_match", truth={"answer": "14"})
TABLE = load_tasks("tabular", "train").get("train-iris-000")
INPUTS = ("train.csv", "test.csv")


def ran(
    stdout: str = "",
    status: RunStatus = "ok",
    stderr: str = "",
    files: Iterable[str] = (),
    opened: tuple[str, ...] | None = None,
) -> ToolResult:
    """``opened``: None as in a sandbox that does not observe it."""
    changes = tuple(FileChange(name, "created", 10, "0") for name in files)
    return ToolResult(status, 0 if status == "ok" else 1, stdout, stderr, files=changes, opened=opened)


class Play:
    """Feeds one action after the other to the coach, as an episode would, from facts written down here."""

    def __init__(self, folder: str, task: Task, *, truth: bool = True) -> None:
        self.card = CARDS[folder]
        self.coach = make_coach("rubric", self.card)
        self.task, self.truth = task, truth
        self.actions: list[ActionRecord] = []
        self.present = {name: FileChange(name, "created", 1, "") for name in INPUTS if folder == "dsbench"}

    def act(
        self,
        agent: str,
        text: str,
        tool: ToolResult | None = None,
        *,
        probe: Mapping[str, Any] | None = None,
        provisional: Outcome | None = None,
        last: bool | None = None,
    ) -> Verdict:
        spec, step = self.card.team[agent], len(self.actions)
        parsed = parse(text, tools=bool(spec.tools))
        turn = sum(a.agent == agent for a in self.actions)
        missing = tuple(n for n in spec.reads if n not in self.present) if tool is not None else ()
        if tool is not None:
            tool = dataclasses.replace(
                tool, files=tuple(dataclasses.replace(f, agent=agent, step=step) for f in tool.files)
            )
            for change in tool.files:
                apply(change, self.present)
        ended = tool is None if last is None else last
        verdict = self.coach.judge(
            Evidence(
                self.task,
                spec,
                turn,
                step,
                "",
                parsed.text,
                parsed.code,
                tool,
                ended,
                tuple(self.actions),
                dict(self.present),
                missing,
                probe,
                None,
                provisional,
                self.task.truth if self.truth and agent in self.card.truth else None,
            )
        )
        self.actions.append(
            ActionRecord(
                step,
                agent,
                turn,
                (),
                parsed.text,
                parsed.thinking,
                parsed.answer,
                parsed.code,
                tool,
                verdict,
                0.0,
                False,
                (self.task.family, spec.role, turn),
                0,
                ended,
                missing,
                probe,
            )
        )
        return verdict


def summed(plan: str, value: str) -> tuple[Play, list[Verdict]]:
    """A team of MathChat that plans ``SUM`` and hands on ``value``, and the verdict on each action."""
    play = Play("mathchat", SUM)
    rows = [play.act("solver_0", plan), play.act("coder_0", code(f"print({value})"), ran(value))]
    rows += [play.act("coder_0", f"result: {value}"), play.act("verifier_0", rf"\boxed{{{value}}}")]
    return play, rows


def code(*lines: str) -> str:
    return "```python\n" + "\n".join(lines) + "\n```"
