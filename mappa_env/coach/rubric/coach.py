"""The offline coach: a deterministic score from host-attested facts and the card's ``rubric.yaml``.

Score = 10 * weighted mean of the criteria that apply, then lowered by every cap that strikes.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from mappa_env.cards import Card
from mappa_env.coach.base import BaseCoach
from mappa_env.coach.case import Case, Check, Finding
from mappa_env.coach.checks import CHECKS
from mappa_env.coach.corrector import ExpertCorrector
from mappa_env.coach.spec import Strict, read_spec_file
from mappa_env.errors import CardError, OptionError, nearest
from mappa_env.types import Criterion, Evidence, Verdict

VERSION = 1
MAX_REASONING = 1000


class CriterionSpec(Strict):
    """``check`` is a name of ``CHECKS``; ``options`` are its keywords. Weight 0: only caps look at it."""

    name: str
    check: str
    weight: Annotated[float, Field(ge=0)]
    options: dict[str, Any] = Field(default_factory=dict)


class CapSpec(Strict):
    """Where ``criterion`` applies and scores below ``below`` (0-1), the verdict is at most ``at_most``
    (0-10)."""

    criterion: str
    below: Annotated[float, Field(gt=0, le=1)]
    at_most: Annotated[float, Field(ge=0, le=10)]


class RoleSpec(Strict):
    criteria: Annotated[tuple[CriterionSpec, ...], Field(min_length=1)]
    caps: tuple[CapSpec, ...] = ()


class RubricSpec(Strict):
    version: int
    roles: dict[str, RoleSpec]


class RubricCoach(BaseCoach):
    """Equal evidence gives equal verdicts. Raises CardError for a malformed ``rubric.yaml``.

    ``corrector``: "full" or "compact" lets the scripted expert stand in for a coach that corrects. ``labels``
    False: judge without the hidden truth, whatever the card allows.
    """

    name = "rubric"
    deterministic = True

    def __init__(self, card: Card, *, corrector: Any = None, labels: Any = True) -> None:
        super().__init__(card)
        assert card.rubric is not None
        spec = read_rubric(card.rubric)
        for role in {agent.role for agent in card.team} - set(spec.roles):
            raise CardError(f"{card.rubric}: no rubric for the role {role!r} of the team.")
        self._team = card.team
        self._corrector = None if corrector is None else ExpertCorrector(card, corrector)
        self.corrects = corrector is not None
        if not isinstance(labels, bool):
            raise OptionError(f"labels={labels!r} of the coach 'rubric' must be True or False.")
        self.labels = labels
        self._roles = {role: (_bound(card.rubric, rows), rows.caps) for role, rows in spec.roles.items()}

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        if not self.labels:
            evidence = dataclasses.replace(evidence, truth=None, standing=None, outcome=None)
        verdict = self._judge(evidence)
        if self._corrector is None:
            return verdict
        return dataclasses.replace(verdict, corrected_action=self._corrector.propose(evidence, verdict))

    def _judge(self, evidence: Evidence) -> Verdict:
        if infrastructure_failed(evidence):
            return Verdict("abstain", None, "the sandbox was unavailable: nothing to judge", coach=self.name)
        case = Case(evidence, self._team)
        checks, caps = self._roles[evidence.agent.role]
        found = {row.name: (row, finding) for row, check in checks if (finding := check(case)) is not None}
        weight = sum(row.weight for row, _ in found.values())
        if not weight:
            return Verdict("abstain", None, "no criterion of the rubric applies here", coach=self.name)
        score = 10 * sum(row.weight * finding.score for row, finding in found.values()) / weight
        for cap in caps:
            if cap.criterion in found and found[cap.criterion][1].score < cap.below:
                score = min(score, cap.at_most)
        told = [finding for row, finding in found.values() if row.weight or finding.score < 1]
        findings = sorted(told, key=lambda finding: finding.score)  # the worst first: readers may clip
        return Verdict(
            "ok",
            round(score, 4),
            "; ".join(finding.reason for finding in findings)[:MAX_REASONING],
            tuple(Criterion(row.name, f.score, row.weight, f.reason) for row, f in found.values()),
            next((finding.blame for finding in findings if finding.blame is not None), None),
            coach=self.name,
        )


def read_rubric(path: Path) -> RubricSpec:
    """Read and check a ``rubric.yaml``. Raises CardError that names the file, the place and the remedy."""
    spec = read_spec_file(path, RubricSpec)
    if spec.version != VERSION:
        raise CardError(f"{path}: version {spec.version} is not known; this version reads {VERSION}.")
    for role, rows in spec.roles.items():
        names = [row.name for row in rows.criteria]
        if len(set(names)) != len(names):
            raise CardError(f"{path}: roles.{role}: two criteria have the same name, found {names}.")
        for cap in rows.caps:
            if cap.criterion not in names:
                raise CardError(
                    f"{path}: roles.{role}: a cap names the criterion {cap.criterion!r}, which is none of "
                    f"{names}." + nearest(cap.criterion, names)
                )
    return spec


def _bound(path: Path, rows: RoleSpec) -> list[tuple[CriterionSpec, Check]]:
    return [(row, functools.partial(_check(path, row), **row.options)) for row in rows.criteria]


def _check(path: Path, row: CriterionSpec) -> Check:
    if row.check not in CHECKS:
        raise CardError(
            f"{path}: no check {row.check!r}; there are {sorted(CHECKS)}." + nearest(row.check, CHECKS)
        )
    known = {
        name: parameter.default
        for name, parameter in inspect.signature(CHECKS[row.check]).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    for key, value in row.options.items():
        if key not in known:
            raise CardError(
                f"{path}: the check {row.check!r} has no option {key!r}; it has {sorted(known)}."
                + nearest(key, known)
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise CardError(f"{path}: option {key!r} of {row.check!r} must be within 0-1, found {value!r}.")
    return CHECKS[row.check]


def infrastructure_failed(evidence: Evidence) -> bool:
    """Whether this action, or one it builds on, met a sandbox that did not work: never an agent's doing."""
    if (evidence.probe or {}).get("probe_failed") == "unavailable":
        return True
    runs = (evidence.tool, *(record.tool for record in evidence.history))
    return any(tool is not None and tool.status == "unavailable" for tool in runs)


__all__ = ["Finding", "RubricCoach", "read_rubric"]
