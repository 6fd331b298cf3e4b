"""Teams of any order put before the rubric, from texts, runs and files that a test writes down."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from mappa_env.cards import Card
from mappa_env.coach import make_coach
from mappa_env.episode.execution import PENDING
from mappa_env.grading.math import MathGrader
from mappa_env.order import read_order
from mappa_env.parsing import parse
from mappa_env.types import ActionRecord, Evidence, FileChange, Outcome, Task, Team, ToolResult, Trajectory
from mappa_env.types.revised import revised
from mappa_env.workspace.changes import apply
from rubric_play import CARDS, INPUTS, SUM

Grade = Callable[[Sequence[ActionRecord], Mapping[str, FileChange]], Outcome]
TABULAR = ("work", "tables", "ran", "intact")
CHECKS = ("math_solution", "math_review", "handover", "math_plan", "math_code", "math_answer", *TABULAR)


def card_of(
    folder: Path, team: Team, rows: Any, checks: Mapping[str, Sequence[str]], answerer: str = ""
) -> Card:
    """A card of ``team`` with the order ``rows``; ``checks``: role -> the checks that apply to it."""
    roles = {
        role: {"criteria": [{"name": check, "check": check, "weight": 1} for check in names]}
        for role, names in checks.items()
    }
    path = folder / "rubric.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "roles": roles}))
    changes: dict[str, Any] = {
        "id": "Own-v0",
        "team": team,
        "order": read_order(rows, team, "card.yaml"),
        "rubric": path,
        "truth": team.names,
        "grader_options": {"agent": answerer} if answerer else {},
    }
    return dataclasses.replace(CARDS["mathchat"], **changes)


class OrderPlay:
    """Feeds one action after the other to the rubric, to whichever agent the order lets act."""

    def __init__(
        self, card: Card, task: Task = SUM, *, grade: Grade | None = None, truth: bool = True
    ) -> None:
        grader = MathGrader(card.answerer)
        self._grade = grade or (lambda actions, present: grader.grade(task, actions, None))
        self.card, self.task, self.truth = card, task, truth
        self.coach = make_coach("rubric", card)
        self.actions: list[ActionRecord] = []
        self.evidence: list[Evidence] = []
        self.outcome: Outcome | None = None
        self.present = {name: FileChange(name, "created", 0, "") for name in INPUTS}

    @property
    def agent(self) -> str | None:
        """Who acts next; None: the episode is over."""
        turn = self.card.order.next(self.actions)
        return None if turn is None else turn.agent.name

    @property
    def trajectory(self) -> Trajectory:
        """The record so far."""
        return Trajectory(self.card.id, self.task, 0, tuple(self.actions), self.outcome)

    def act(
        self, text: str, tool: ToolResult | None = None, probe: Mapping[str, Any] | None = None
    ) -> ActionRecord:
        """The next action: ``text``, whose code, if it has any, ended as ``tool`` says."""
        turn = self.card.order.next(self.actions)
        assert turn is not None, "the episode is over"
        spec, step, history = turn.agent, len(self.actions), tuple(self.actions)
        parsed = parse(text, tools=bool(spec.tools))
        assert (parsed.code is None) == (tool is None), text
        missing = tuple(name for name in spec.reads if name not in self.present) if tool is not None else ()
        if tool is not None:
            files = (revised(change, agent=spec.name, step=step) for change in tool.files)
            tool = revised(tool, files=tuple(files))
            for change in tool.files:
                apply(change, self.present)
        last = parsed.code is None or turn.left <= 1
        draft = ActionRecord(
            step, spec.name, turn.number, (), parsed.text, parsed.thinking, parsed.answer, parsed.code, tool,
            PENDING, 0.0, False,
            (self.task.family, spec.role, turn.number), 0, last, missing, probe,
        )  # fmt: skip
        graded = self._grade((*history, draft), self.present)
        over = last and self.card.order.over((*history, draft))
        self.outcome = graded if over else None
        evidence = Evidence(
            self.task, spec, turn.number, step, "", parsed.text, parsed.code, tool, last, history,
            dict(self.present), missing, probe, self.outcome, graded, self.task.truth if self.truth else None,
        )  # fmt: skip
        self.evidence.append(evidence)
        self.actions.append(revised(draft, verdict=self.coach.judge(evidence)))
        return self.actions[-1]


def say(play: OrderPlay, *said: str) -> list[tuple[float | None, str | None]]:
    """Act with these texts; returns (score, blame) of every action."""
    for text in said:
        play.act(text)
    return [(action.verdict.score, action.verdict.blame) for action in play.actions]
