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

from mappa_env.cards import Card
from mappa_env.coach.llm.criteria import BEST, read_spec
from mappa_env.coach.llm.fences import clipped, fenced, neutral
from mappa_env.coach.program import exception_of
from mappa_env.coach.rubric.artifacts import Defect
from mappa_env.coach.rubric.case import Case
from mappa_env.coach.rubric.inputs import unsound_inputs
from mappa_env.errors import CardError
from mappa_env.types import Evidence, FileChange, Outcome

LIMITS = {"REPORTED": 12000, "saw": 6000, "stdout": 4000, "stderr": 4000, "action": 12000}
"""Characters of agent-controlled text that are shown; longer texts are cut in the middle."""
_TASK, _TEXT, _NAME, _LIST, _WROTE = 8000, 200, 80, 64, 8
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
        try:
            self.template = (card.coach.parent / self.spec.template).read_text(encoding="utf-8")
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
        unsound = unsound_inputs(Case(evidence, self._card.team))
        facts = _json(_facts(evidence, unsound, labels=labels))
        texts = {"REPORTED": _json(found) if (found := _reported(evidence, unsound)) else ""}
        texts["saw"] = evidence.prompt
        if evidence.tool is not None:
            texts |= {"stdout": evidence.tool.stdout, "stderr": evidence.tool.stderr}
        texts["action"] = evidence.action
        names = {
            "REPORTED": "REPORTED (from inside the sandbox: the contents of files)",
            "saw": "what the agent saw",
            "action": "the action to be judged",
        }
        fences = tuple(
            fenced(names.get(name, name), text, nonce, LIMITS[name]) for name, text in texts.items() if text
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
            return self._compiled.render(context).strip() + (_CORRECT if self._corrections else "")
        except Exception as error:  # noqa: BLE001  a template runs code, so it can raise anything
            reason = f"{type(error).__name__}: {error}"
            raise CardError(f"{self._card.folder}/{self.spec.template} failed: {reason}") from None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _facts(evidence: Evidence, unsound: Sequence[Defect], *, labels: bool) -> dict[str, Any]:
    """What the host observed, as JSON. Names that an agent can choose are bounded and neutralised."""
    tool = evidence.tool
    facts: dict[str, Any] = {
        "agent": evidence.agent.name,
        "turn": evidence.turn + 1,
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
        "unsound_inputs_when_the_segment_began": [
            {
                "path": _text(found.path, _NAME),
                "reason": found.reason if found.observed else "its contents: see REPORTED",
                "responsible": found.writer or "not known",
            }
            for found in unsound
        ],
        "earlier_actions": [
            {
                "agent": record.agent,
                "turn": record.turn + 1,
                "status": record.tool.status if record.tool else "no code",
                "wrote": _names(change.path for change in record.tool.files) if record.tool else [],
            }
            for record in evidence.history[-_LIST:]
        ],
    }
    if labels and evidence.truth is not None:
        facts["if_the_episode_ended_now"] = _outcome(evidence.provisional_outcome)
        facts["how_the_episode_ended"] = _outcome(evidence.outcome)
    return facts


def _reported(evidence: Evidence, unsound: Sequence[Defect]) -> dict[str, Any]:
    """What the sandbox reported about the contents of files, as JSON; empty if nothing was looked into."""
    reasons = [
        {"path": _text(each.path, _NAME), "reason": _text(each.reason)}
        for each in unsound
        if not each.observed
    ]
    found = {"unsound_contents_when_the_segment_began": reasons} if reasons else {}
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
