"""The checks that a card's ``rubric.yaml`` may name."""

from __future__ import annotations

from collections.abc import Mapping

from mappa_env.coach import checks_math, checks_tabular, checks_work
from mappa_env.coach.case import Check

CHECKS: Mapping[str, Check] = {
    "ran": checks_work.ran,
    "files": checks_work.files,
    "claims": checks_work.claims,
    "intact": checks_work.intact,
    "tables": checks_tabular.tables,
    "model": checks_tabular.model,
    "submission": checks_tabular.submission,
    "math_plan": checks_math.math_plan,
    "math_code": checks_math.math_code,
    "math_answer": checks_math.math_answer,
}
