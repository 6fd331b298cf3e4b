"""The prompt about one action: the card's template, facts of the host, reports of the sandbox, agents' text.

The parts that rarely change come first (template, task) and the action last, so servers can cache the prefix.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from mappa_env.card_files import find_file
from mappa_env.cards import Card
from mappa_env.coach.llm.criteria import BEST, read_spec
from mappa_env.coach.llm.fences import clipped, fenced, neutral
from mappa_env.coach.program import exception_of
from mappa_env.coach.rubric.artifacts import Defect
from mappa_env.coach.rubric.case import Case
from mappa_env.coach.rubric.inputs import unsound_inputs
from mappa_env.errors import CardError
from mappa_env.types import Evidence, FileChange, Outcome, ToolCall

LIMITS = {"REPORTED": 12000, "saw": 6000, "stdout": 4000, "stderr": 4000, "action": 12000}
"""Characters of agent-controlled text that are shown; longer texts are cut in the middle."""
_TASK, _TEXT, _NAME, _LIST, _WROTE = 8000, 200, 80, 64, 8
_ORDER = "This, and not the order in which the team is listed above, is the order in which it works."
_CALLS, _RESULT = 8, 3000
"""Tool calls whose results are shown, and characters of each."""
_WHOSE = {"host": "what the host itself found", "server": "what a server outside says"}
_CORRECT = """

Where a better action was possible, write it under corrected_action: whole, in the form in which the agent
has to write it (code in a ```python fence), from what the agent knew. It will be carried out, and believed
only if it does better. Otherwise corrected_action is null."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """System prompt and user message parts. ``quotable``: all text that a quote may come from."""

    system: str
    parts: tuple[str, ...]
    quotable: str


class Prompts:
    """Writes the prompts of one card, from its ``coach.yaml`` and its template.

    ``spec`` and ``template`` are the contents of the two files, ``systems`` the system prompt of each role.
    """

    def __init__(self, card: Card, *, corrections: bool = False) -> None:
        """``corrections``: also ask for a better action.

        Raises CardError for a missing or malformed ``coach.yaml``, or a template that fails.
        """
        if card.coach is None:
            raise CardError(f"the card {card.id} has no coach.yaml, so it has no questions for a model.")
        self.spec = read_spec(card.coach, tuple(sorted({agent.role for agent in card.team})))
        template = find_file([card.coach.parent], self.spec.template, card.coach, "template")
        try:
            self.template = template.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CardError(
                f"{card.coach}: template {self.spec.template!r} cannot be read: {error}"
            ) from None
        self._card, self._corrections = card, corrections
        environment = SandboxedEnvironment(
            undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
        )
        try:
            self._compiled = environment.from_string(self.template)
        except jinja2.TemplateSyntaxError as error:
            raise CardError(
                f"{card.folder}/{self.spec.template} line {error.lineno}: {error.message}"
            ) from None
        self.systems = {role: self._system(role) for role in self.spec.roles}

    def write(self, evidence: Evidence, nonce: str, *, labels: bool) -> Prompt:
        """The prompt about one action. ``labels``: show the truth and the provisional outcome, if known."""
        case = Case(evidence, self._card.order, self._card.answerer)
        unsound = unsound_inputs(case)
        facts = _json(_facts(case, unsound, labels=labels))
        found = _reported(evidence, unsound, labels=labels)
        texts = {"REPORTED": _json(found) if found else ""}
        texts["saw"] = evidence.prompt
        if evidence.tool is not None:
            texts |= {"stdout": evidence.tool.stdout, "stderr": evidence.tool.stderr}
        results = {_result(i, call): call.text for i, call in enumerate(evidence.calls[:_CALLS], 1)}
        texts |= results
        texts["action"] = evidence.action
        names = {
            "REPORTED": "REPORTED (from inside the sandbox: the use and the contents of files)",
            "saw": "what the agent saw",
            "action": "the action to be judged",
        }
        fences = tuple(
            fenced(names.get(name, name), text, nonce, LIMITS.get(name, _RESULT))
            for name, text in texts.items()
            if text
        )
        task = f"THE TASK\n{clipped(neutral(evidence.task.prompt), _TASK)[0]}"
        parts = (task, f"FACTS (observed by the host)\n{facts}", *fences)
        return Prompt(self.systems[evidence.agent.role], parts, "\n".join((facts, *texts.values())))

    def _system(self, role: str) -> str:
        rows = self.spec.roles[role]
        context = {
            "title": self._card.title,
            "summary": self._card.summary,
            "role": role,
            "duty": rows.duty,
            "team": [{"name": agent.name, "title": agent.title} for agent in self._card.team],
            "criteria": [row.model_dump() for row in rows.criteria],
            "best": BEST,
        }
        try:
            written = self._compiled.render(context).strip()
        except Exception as error:  # noqa: BLE001  a template runs code, so it can raise anything
            reason = f"{type(error).__name__}: {error}"
            raise CardError(f"{self._card.folder}/{self.spec.template} failed: {reason}") from None
        order = "" if self._card.order.is_chain else f"\n\n{_ORDER}\n{self._card.order}"
        return written + order + (_CORRECT if self._corrections else "")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _facts(case: Case, unsound: Sequence[Defect], *, labels: bool) -> dict[str, Any]:
    """What the host observed, as JSON. Names that an agent can choose are bounded and neutralised."""
    evidence, tool = case.evidence, case.evidence.tool
    facts: dict[str, Any] = {
        "agent": evidence.agent.name,
        **({} if case.order.is_chain else _segment(case)),
        "turn": len(case.own) + 1,
        "turns_allowed": evidence.agent.max_turns,
        "stay_ends_here": evidence.last_turn,
        "must_write": list(evidence.agent.requires),
        "needs": [_input(evidence, path) for path in evidence.agent.reads],
        "run": None
        if tool is None
        else {
            "status": tool.status,
            "exit_code": tool.exit_code,
            "exception": _text(exception_of(tool)[0], _NAME),
            "output_bytes_dropped": tool.truncated,
            "files": [_file(change) for change in tool.files[:_LIST]],
        },
        **({"tool_calls": [_call(call) for call in evidence.calls[:_LIST]]} if evidence.calls else {}),
        "unsound_inputs_when_the_segment_began": [
            {
                "path": _text(found.path, _NAME),
                "reason": found.reason if found.observed else "its contents: see REPORTED",
                "responsible": found.writer or "not known",
            }
            for found in unsound
        ],
        "earlier_actions": _earlier(case),
    }
    if labels and evidence.truth is not None:
        facts["if_the_episode_ended_now"] = _outcome(evidence.provisional_outcome)
        facts["how_the_episode_ended"] = _outcome(evidence.outcome)
    return facts


def _segment(case: Case) -> dict[str, Any]:
    """Which of its segments the agent is in, where an agent may have several, and who may call whom."""
    managed = {"called_by": case.sender} if case.order.managers else {}
    calls = {"may_call": list(case.offered)} if case.offered else {}
    return {"segment": sum(record.last_turn for record in case.earlier) + 1, **managed, **calls}


def _earlier(case: Case) -> list[dict[str, Any]]:
    """The last actions before this one; in an order, also in which segment, and whether they were seen."""
    seen = {record.step for record in case.seen}
    segments: dict[str, int] = {}
    turns: dict[str, int] = {}
    rows = []
    for record in case.evidence.history:
        row: dict[str, Any] = {"agent": record.agent, "turn": record.turn + 1}
        if not case.order.is_chain:
            segment, turn = segments.setdefault(record.agent, 1), turns.get(record.agent, 0) + 1
            segments[record.agent] = segment + record.last_turn
            turns[record.agent] = 0 if record.last_turn else turn
            row |= {"turn": turn, "segment": segment, "seen_by_this_agent": record.step in seen}
        row |= {
            "status": record.tool.status if record.tool else "no code",
            "wrote": _names(change.path for change in record.tool.files) if record.tool else [],
            **({"tool_calls": _statuses(record.calls)} if record.calls else {}),
        }
        rows.append(row)
    return rows[-_LIST:]


def _reported(evidence: Evidence, unsound: Sequence[Defect], *, labels: bool) -> dict[str, Any]:
    """What the sandbox reported: which files the code opened, what is in files, and what a model predicts."""
    reasons = [
        {"path": _text(each.path, _NAME), "reason": _text(each.reason)}
        for each in unsound
        if not each.observed
    ]
    found: dict[str, Any] = {"unsound_contents_when_the_segment_began": reasons} if reasons else {}
    if evidence.tool is not None and evidence.tool.opened is not None:
        found["files_that_the_code_opened_or_asked_for"] = _plain(evidence.tool.opened)
    if labels and evidence.follows is not None:
        found["how_far_the_submission_follows_the_model_from_0_to_1"] = evidence.follows
    return found | ({} if evidence.probe is None else {"found_inside_files": _plain(evidence.probe)})


def _input(evidence: Evidence, path: str) -> dict[str, Any]:
    change = evidence.present.get(path)
    if change is None:
        return {"path": path, "there": False}
    writer = change.agent or "the task"
    return {"path": path, "there": True, "written_by": writer, "at_action": change.step, "size": change.size}


def _file(change: FileChange) -> dict[str, Any]:
    mode = {} if change.mode is None else {"mode_left": f"{change.mode:04o}"}
    return mode | {
        "path": _text(change.path, _NAME),
        "what": change.op,
        "kind": change.kind,
        "size": change.size,
        "sha256": change.sha256[:16],
    }


def _result(number: int, call: ToolCall) -> str:
    return f"result of tool call {number} ({_WHOSE[call.attester]})"


def _call(call: ToolCall) -> dict[str, Any]:
    """What the host observed of a call. Its time is left out: it would make every question a new one."""
    found = {
        "tool": _text(call.tool, _NAME),
        "status": call.status,
        "result_attested_by": call.attester,
        "result_characters": len(call.text) + call.omitted,
    }
    return found | ({"found": _plain(call.facts)} if call.facts else {})


def _statuses(calls: Sequence[ToolCall]) -> list[str]:
    return [f"{_text(call.tool, _NAME)}: {call.status}" for call in calls[:_WROTE]]


def _outcome(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    metrics = {name: round(value, 6) for name, value in outcome.metrics.items()}
    return {
        "success": outcome.success,
        "score": round(outcome.score, 6),
        "status": outcome.status,
        "reason": _text(outcome.reason),
        "metrics": metrics,
    }


def _names(names: Any) -> list[str]:
    return [_text(name, _NAME) for name in list(names)[:_WROTE]]


def _plain(value: Any, depth: int = 0) -> Any:
    """``value`` (JSON that sandboxed code printed) with bounded size and neutralised text."""
    if isinstance(value, Mapping) and depth < 4:
        return {
            _text(str(name), _NAME): _plain(item, depth + 1) for name, item in list(value.items())[:_LIST]
        }
    if isinstance(value, (list, tuple)) and depth < 4:
        return [_plain(item, depth + 1) for item in value[:_LIST]]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return _text(str(value))


def _text(text: str, most: int = _TEXT) -> str:
    return clipped(neutral(text), most)[0]
