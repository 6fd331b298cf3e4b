"""``coach.yaml`` of a card: what a language model is asked about each action, and how the score is computed.

The model grades criteria; the host computes the score: 10 * weighted mean of the grades, limited by every
gate that applies. Gates test host-attested facts and are the same for every role: equally strict everywhere.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mappa_env.coach.rubric.case import Case
from mappa_env.coach.rubric.checks import CHECKS, find_check
from mappa_env.coach.spec import Strict, read_spec_file
from mappa_env.errors import CardError
from mappa_env.plugins import from_card

BEST = 4
"""Grades are whole numbers from 0 to this."""


class Question(Strict):
    """One criterion. ``best`` and ``worst`` describe the highest and the lowest grade of ``question``."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z_]*$")]
    weight: Annotated[float, Field(gt=0)]
    question: str
    best: str
    worst: str


class Gate(Strict):
    """If ``check`` applies and scores below ``below`` (0-1), the verdict's score is at most ``at_most``."""

    check: str
    below: Annotated[float, Field(gt=0, le=1)]
    at_most: Annotated[float, Field(ge=0, le=10)]


class RoleQuestions(Strict):
    """The ``duty`` of one role, and the criteria that grade it."""

    duty: str
    criteria: Annotated[tuple[Question, ...], Field(min_length=1)]


class CoachSpec(Strict):
    """A ``coach.yaml``. ``version`` is part of every verdict's cache key: raise it with every change."""

    version: Annotated[int, Field(ge=1)]
    template: str
    gates: tuple[Gate, ...] = ()
    roles: dict[str, RoleQuestions]

    def score(self, role: str, grades: dict[str, int], case: Case) -> float:
        """0-10."""
        rows = self.roles[role].criteria
        score = 10 * sum(row.weight * grades[row.name] for row in rows) / BEST / sum(r.weight for r in rows)
        for gate in self.gates:
            finding = CHECKS.find(gate.check)(case)
            if finding is not None and finding.score < gate.below:
                score = min(score, gate.at_most)
        return round(score, 4)


@functools.cache
def read_spec(path: Path, roles: tuple[str, ...]) -> CoachSpec:
    """Read and check a ``coach.yaml``. Raises CardError that names the file, the key and the remedy."""
    spec = read_spec_file(path, CoachSpec)
    for gate in spec.gates:
        find_check(path, gate.check, {})
    gates = [
        gate.model_copy(update={"check": from_card(path, "gates", gate.check, [path.parent])})
        for gate in spec.gates
    ]
    spec = spec.model_copy(update={"gates": tuple(gates)})
    for role in roles:
        if role not in spec.roles:
            raise CardError(f"{path} has no criteria for the role {role!r}: add roles.{role}.")
    for role, rows in spec.roles.items():
        names = [row.name for row in rows.criteria]
        if len(set(names)) != len(names):
            raise CardError(f"{path}: roles.{role}: two criteria have the same name, found {names}.")
    return spec
