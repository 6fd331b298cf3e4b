"""``coach.yaml`` of a card: what a language model is asked about each action, and what a score is made of.

The model grades criteria; the score is ours: 10 * weighted mean of the grades, lowered by every gate that
strikes. Gates look at host-attested facts, and are the same for every role: equally strict everywhere.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mappa_env.coach.case import Case
from mappa_env.coach.checks import CHECKS
from mappa_env.coach.spec import Strict, read_spec_file
from mappa_env.errors import CardError, nearest

BEST = 4
"""Grades are whole numbers from 0 to this."""


class Question(Strict):
    """One criterion. ``question`` says what to look at, ``best`` and ``worst`` what earns which grade."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z_]*$")]
    weight: Annotated[float, Field(gt=0)]
    question: str
    best: str
    worst: str


class Gate(Strict):
    """Where the ``check`` applies and finds less than ``below`` (0-1), the score is at most ``at_most``."""

    check: str
    below: Annotated[float, Field(gt=0, le=1)]
    at_most: Annotated[float, Field(ge=0, le=10)]


class RoleQuestions(Strict):
    duty: str
    criteria: Annotated[tuple[Question, ...], Field(min_length=1)]


class CoachSpec(Strict):
    """``version`` is the card author's, and part of every verdict's key: raise it with every change."""

    version: Annotated[int, Field(ge=1)]
    template: str
    gates: tuple[Gate, ...] = ()
    roles: dict[str, RoleQuestions]

    def score(self, role: str, grades: dict[str, int], case: Case) -> float:
        """0-10."""
        rows = self.roles[role].criteria
        score = 10 * sum(row.weight * grades[row.name] for row in rows) / BEST / sum(r.weight for r in rows)
        for gate in self.gates:
            finding = CHECKS[gate.check](case)
            if finding is not None and finding.score < gate.below:
                score = min(score, gate.at_most)
        return round(score, 4)


@functools.cache
def read_spec(path: Path, roles: tuple[str, ...]) -> CoachSpec:
    """Raises CardError that names the file, the place and the remedy."""
    spec = read_spec_file(path, CoachSpec)
    for gate in spec.gates:
        if gate.check not in CHECKS:
            raise CardError(
                f"{path}: gates: no check {gate.check!r}; there are {sorted(CHECKS)}."
                + nearest(gate.check, CHECKS)
            )
    for role in roles:
        if role not in spec.roles:
            raise CardError(f"{path}: no criteria for the role {role!r} of the team.")
    for role, rows in spec.roles.items():
        names = [row.name for row in rows.criteria]
        if len(set(names)) != len(names):
            raise CardError(f"{path}: roles.{role}: two criteria have the same name, found {names}.")
    return spec
