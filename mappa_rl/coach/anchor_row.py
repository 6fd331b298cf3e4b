"""One line of ``anchors.jsonl``: an episode whose actions are judged again, without its task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import TypeAdapter

from mappa_env.types import ActionRecord, Evidence, FileChange, Outcome

_ACTIONS: TypeAdapter[tuple[ActionRecord, ...]] = TypeAdapter(tuple[ActionRecord, ...])
_PRESENT: TypeAdapter[dict[str, FileChange]] = TypeAdapter(dict[str, FileChange])
_OUTCOME: TypeAdapter[Outcome | None] = TypeAdapter(Outcome | None)


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """What the evidence on an action has beside the action and its task.

    ``truth``: whether the coach is shown the task's truth.
    """

    prompt: str
    present: Mapping[str, FileChange]
    outcome: Outcome | None
    provisional_outcome: Outcome | None
    truth: bool
    follows: float | None = None

    @classmethod
    def of(cls, evidence: Evidence) -> Self:
        """The row of some evidence."""
        return cls(
            evidence.prompt,
            evidence.present,
            evidence.outcome,
            evidence.provisional_outcome,
            evidence.truth is not None,
            evidence.follows,
        )

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """Read what ``to_dict`` gave, after JSON."""
        return cls(
            row["prompt"],
            _PRESENT.validate_python(row["present"]),
            _OUTCOME.validate_python(row["outcome"]),
            _OUTCOME.validate_python(row["standing"]),
            row["truth"],
            row.get("follows"),
        )

    def to_dict(self) -> dict[str, Any]:
        """The stored form."""
        return {
            "prompt": self.prompt,
            "present": self.present,
            "outcome": self.outcome,
            "standing": self.provisional_outcome,
            "truth": self.truth,
            "follows": self.follows,
        }


@dataclass(frozen=True, slots=True)
class AnchorRow:
    """Only the task's id is stored, neither its truth nor its files. ``evidence``: one row per action."""

    task_id: str
    actions: tuple[ActionRecord, ...]
    evidence: tuple[EvidenceRow, ...]

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """Read what ``to_dict`` gave, after JSON."""
        evidence = tuple(EvidenceRow.from_dict(each) for each in row["evidence"])
        return cls(row["task_id"], _ACTIONS.validate_python(row["actions"]), evidence)

    def to_dict(self) -> dict[str, Any]:
        """The stored form, for pydantic's ``to_json``."""
        evidence = [each.to_dict() for each in self.evidence]
        return {"task_id": self.task_id, "actions": self.actions, "evidence": evidence}
