"""What the model is told about one action: the card's template, host-attested facts, and fenced agent text.

What rarely changes comes first (template, task), the action last, so that servers can cache the beginning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from mappa_env.cards import Card
from mappa_env.coach.case import exception_of
from mappa_env.coach.llm.criteria import BEST, CoachSpec
from mappa_env.coach.llm.fences import clipped, fenced, neutral
from mappa_env.errors import CardError
from mappa_env.types import Evidence, FileChange, Outcome

LIMITS = {"saw": 6000, "stdout": 4000, "stderr": 4000, "action": 12000}
"""Characters of agent-controlled text that are shown; head and tail of what is longer."""
_TASK, _TEXT, _LIST = 8000, 200, 64
_CORRECT = """

Where a better action was possible, write it under corrected_action: whole, in the form in which the agent
has to write it (code in a ```python fence), from what the agent knew. It will be carried out, and believed
only if it does better. Otherwise corrected_action is null."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """``quotable``: all that a quote may be taken from."""

    system: str
    parts: tuple[str, ...]
    quotable: str


class Prompts:
    """Writes the prompts of one card. Raises CardError for a template that does not work."""

    def __init__(self, card: Card, spec: CoachSpec, template: str, *, corrections: bool = False) -> None:
        """``corrections``: ask for a better action too."""
        self._card, self._spec, self._corrections = card, spec, corrections
        environment = SandboxedEnvironment(
            undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
        )
        try:
            self._template = environment.from_string(template)
        except jinja2.TemplateSyntaxError as error:
            raise CardError(f"{card.folder}/{spec.template} line {error.lineno}: {error.message}") from None
        self.systems = {role: self._system(role) for role in spec.roles}

    def write(self, evidence: Evidence, nonce: str, *, labels: bool) -> Prompt:
        """``labels``: show the task's truth and the standing, where the evidence holds them."""
        facts = json.dumps(_facts(evidence, labels=labels), ensure_ascii=False, indent=1)
        texts = {"saw": evidence.prompt}
        if evidence.tool is not None:
            texts |= {"stdout": evidence.tool.stdout, "stderr": evidence.tool.stderr}
        texts["action"] = evidence.action
        names = {"saw": "what the agent saw", "action": "the action to be judged"}
        fences = tuple(
            fenced(names.get(name, name), text, nonce, LIMITS[name]) for name, text in texts.items() if text
        )
        task = f"THE TASK\n{clipped(neutral(evidence.task.prompt), _TASK)[0]}"
        parts = (task, f"FACTS (measured by the host)\n{facts}", *fences)
        return Prompt(self.systems[evidence.agent.role], parts, "\n".join((facts, *texts.values())))

    def _system(self, role: str) -> str:
        rows = self._spec.roles[role]
        context = {
            "title": self._card.title, "summary": self._card.summary, "role": role, "duty": rows.duty,
            "team": [{"name": agent.name, "title": agent.title} for agent in self._card.team],
            "criteria": [row.model_dump() for row in rows.criteria], "best": BEST,
        }  # fmt: skip
        try:
            return self._template.render(context).strip() + (_CORRECT if self._corrections else "")
        except Exception as error:  # noqa: BLE001  a template can compute, so it can raise anything
            reason = f"{type(error).__name__}: {error}"
            raise CardError(f"{self._card.folder}/{self._spec.template} failed: {reason}") from None


def _facts(evidence: Evidence, *, labels: bool) -> dict[str, Any]:
    """What an agent could have chosen (names, claims, what a probe read) is neutral text in a JSON string."""
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
            "exception": exception_of(tool)[0],
            "output_bytes_dropped": tool.truncated,
            "files": [_file(change) for change in tool.files[:_LIST]],
        },
        "inputs_missing": _names(evidence.missing),
        "claimed_but_not_written": _names(evidence.claims),
        "found_inside_files": _plain(evidence.probe),
        "earlier_actions": [
            {
                "agent": record.agent,
                "turn": record.turn + 1,
                "status": record.tool.status if record.tool else "no code",
                "wrote": _names(change.path for change in record.tool.files) if record.tool else [],
                "claimed_but_not_written": _names(record.claims),
            }
            for record in evidence.history[-_LIST:]
        ],
    }
    if labels and evidence.truth is not None:
        facts["if_the_episode_ended_now"] = _outcome(evidence.standing)
        facts["how_the_episode_ended"] = _outcome(evidence.outcome)
    return facts


def _input(evidence: Evidence, path: str) -> dict[str, Any]:
    change = evidence.present.get(path)
    if change is None:
        return {"path": path, "there": False}
    writer = change.agent or "the task"
    return {"path": path, "there": True, "written_by": writer, "at_action": change.step, "size": change.size}


def _file(change: FileChange) -> dict[str, Any]:
    return {
        "path": _text(change.path), "what": change.op, "kind": change.kind, "size": change.size,
        "sha256": change.sha256[:16],
    }  # fmt: skip


def _outcome(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    metrics = {name: round(value, 6) for name, value in outcome.metrics.items()}
    return {"success": outcome.success, "score": round(outcome.score, 6), "status": outcome.status,
            "reason": _text(outcome.reason), "metrics": metrics}  # fmt: skip


def _names(names: Any) -> list[str]:
    return [_text(name) for name in list(names)[:_LIST]]


def _plain(value: Any, depth: int = 0) -> Any:
    """``value`` (JSON that sandboxed code printed) with bounded size and neutral text."""
    if isinstance(value, Mapping) and depth < 4:
        return {_text(str(name)): _plain(item, depth + 1) for name, item in list(value.items())[:_LIST]}
    if isinstance(value, (list, tuple)) and depth < 4:
        return [_plain(item, depth + 1) for item in value[:_LIST]]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return _text(str(value))


def _text(text: str) -> str:
    return clipped(neutral(text), _TEXT)[0]
