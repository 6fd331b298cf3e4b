"""The offline coach: a deterministic score from host-attested facts and the card's ``rubric.yaml``.

Score = 10 * weighted mean of the criteria that apply, then limited by every cap that applies.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from mappa_env.cards import Card
from mappa_env.coach.base import BaseCoach
from mappa_env.coach.rubric.artifacts import unknown_work
from mappa_env.coach.rubric.case import Case, Check, Finding
from mappa_env.coach.rubric.checks import find_check
from mappa_env.coach.rubric.checks_work import BLOCKED, intact
from mappa_env.coach.rubric.corrector import ExpertCorrector
from mappa_env.coach.rubric.inputs import unknown_input
from mappa_env.coach.spec import Strict, read_spec_file
from mappa_env.errors import CardError, OptionError, nearest
from mappa_env.types import Criterion, Evidence, Verdict

VERSION = 1
MAX_REASONING = 1000


class CriterionSpec(Strict):
    """``check`` names a rubric check; ``options`` are its keywords. Weight 0: only caps use it."""

    name: str
    check: str
    weight: Annotated[float, Field(ge=0)]
    options: dict[str, Any] = Field(default_factory=dict)


class CapSpec(Strict):
    """If ``criterion`` applies and scores below ``below`` (0-1), the score is at most ``at_most`` (0-10)."""

    criterion: str
    below: Annotated[float, Field(gt=0, le=1)]
    at_most: Annotated[float, Field(ge=0, le=10)]


class RoleSpec(Strict):
    """How the actions of one role are scored."""

    criteria: Annotated[tuple[CriterionSpec, ...], Field(min_length=1)]
    caps: tuple[CapSpec, ...] = ()


class RubricSpec(Strict):
    """A ``rubric.yaml``: role -> criteria and caps."""

    version: int
    roles: dict[str, RoleSpec]


class RubricCoach(BaseCoach):
    """Scores by the card's rubric: equal evidence gives equal verdicts.

    ``corrector``: "full" or "compact" lets the scripted expert propose corrected actions. ``labels`` False:
    judge without the hidden truth, even if the card allows it. Raises CardError for a malformed
    ``rubric.yaml``, OptionError for a card without one.
    """

    name = "rubric"
    deterministic = True

    def __init__(self, card: Card, *, corrector: Any = None, labels: Any = True) -> None:
        super().__init__(card)
        if card.rubric is None:
            raise OptionError(f"coach='rubric': the card {card.id} has no rubric; use coach='off'.")
        spec = read_rubric(card.rubric)
        for role in {agent.role for agent in card.team} - set(spec.roles):
            raise CardError(f"{card.rubric} has no rubric for the role {role!r}: add roles.{role}.")
        self._order, self._answerer = card.order, card.answerer
        self._corrector = None if corrector is None else ExpertCorrector(card, corrector)
        self.corrects = corrector is not None
        if not isinstance(labels, bool):
            raise OptionError(f"labels={labels!r} of the coach 'rubric' must be True or False.")
        self.labels = labels
        self._roles = {role: (_bound(card.rubric, rows), rows.caps) for role, rows in spec.roles.items()}

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        """Score one action; abstain if the sandbox failed or no criterion applies."""
        if not self.labels:
            evidence = dataclasses.replace(evidence, truth=None, provisional_outcome=None, outcome=None)
        verdict = self._judge(evidence)
        if self._corrector is None:
            return verdict
        return dataclasses.replace(verdict, corrected_action=self._corrector.propose(evidence, verdict))

    def _judge(self, evidence: Evidence) -> Verdict:
        if infrastructure_failed(evidence):
            return Verdict("abstain", None, "the sandbox was unavailable: nothing to judge", coach=self.name)
        case = Case(evidence, self._order, self._answerer)
        checks, caps = self._roles[evidence.agent.role]
        found = {row.name: (row, finding) for row, check in checks if (finding := check(case)) is not None}
        weight = sum(row.weight for row, _ in found.values())
        limits = [
            cap.at_most
            for cap in caps
            if cap.criterion in found and found[cap.criterion][1].score < cap.below
        ]
        unread = None if weight else unknown_work(case)
        if unread is not None and not limits:
            return Verdict("abstain", None, f"this coach cannot read {unread}", coach=self.name)
        if not weight and unread is None:
            return Verdict("abstain", None, "no criterion of the rubric applies here", coach=self.name)
        # Whatever an unread file holds, its agent answers for what else the host observed.
        earned = (
            sum(row.weight * finding.score for row, finding in found.values()) / weight if weight else 1.0
        )
        score = min(10 * earned, *limits) if limits else 10 * earned
        unseen = unknown_input(case)
        if unseen is not None and score < 10 * BLOCKED and intact(case).score == 1:
            return Verdict(
                "abstain", None, f"this coach cannot read {unseen}, which it used", coach=self.name
            )
        shown = [finding for row, finding in found.values() if row.weight or finding.score < 1]
        findings = sorted(shown, key=lambda finding: finding.score)  # worst first: the text may be cut
        return Verdict(
            "ok",
            round(score, 4),
            "; ".join(finding.reason for finding in findings)[:MAX_REASONING],
            tuple(Criterion(row.name, f.score, row.weight, f.reason) for row, f in found.values()),
            next((finding.blame for finding in findings if finding.blame is not None), None) or None,
            coach=self.name,
        )


def read_rubric(path: Path) -> RubricSpec:
    """Read and check a ``rubric.yaml``. Raises CardError that names the file, the key and the remedy."""
    spec = read_spec_file(path, RubricSpec)
    if spec.version != VERSION:
        raise CardError(
            f"{path} has version {spec.version}, but this version of mappa reads version {VERSION}."
        )
    for role, rows in spec.roles.items():
        names = [row.name for row in rows.criteria]
        if len(set(names)) != len(names):
            raise CardError(f"{path}: roles.{role}: two criteria have the same name, found {names}.")
        for cap in rows.caps:
            if cap.criterion not in names:
                raise CardError(
                    f"{path}: roles.{role}: a cap names the criterion {cap.criterion!r}; choose from "
                    f"{names}." + nearest(cap.criterion, names)
                )
    return spec


def _bound(path: Path, rows: RoleSpec) -> list[tuple[CriterionSpec, Check]]:
    return [
        (row, functools.partial(find_check(path, row.check, row.options), **row.options))
        for row in rows.criteria
    ]


def infrastructure_failed(evidence: Evidence) -> bool:
    """Whether sandbox or a tool was unavailable for this action or an earlier one: never an agent's fault."""
    if (evidence.probe or {}).get("probe_failed") == "unavailable":
        return True
    here = evidence.tool is not None and evidence.tool.status == "unavailable"
    called = any(call.status == "unavailable" for call in evidence.calls)
    return here or called or any(record.unavailable for record in evidence.history)


__all__ = ["Finding", "RubricCoach", "read_rubric"]
