"""The checks that a card's ``rubric.yaml`` and the gates of its ``coach.yaml`` may name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mappa_env import plugins
from mappa_env.coach.rubric.case import Check
from mappa_env.errors import CardError, OptionError

_HERE = "mappa_env.coach.rubric"
CHECKS = plugins.Kind(
    name="rubric check",
    option="check",
    group="mappa.checks",
    builtin={
        "ran": f"{_HERE}.checks_work:ran",
        "work": f"{_HERE}.checks_work:work",
        "intact": f"{_HERE}.checks_work:intact",
        "tables": f"{_HERE}.checks_tables:tables",
        "model": f"{_HERE}.checks_model:model",
        "submission": f"{_HERE}.checks_submission:submission",
        "math_plan": f"{_HERE}.checks_math:math_plan",
        "math_code": f"{_HERE}.checks_math:math_code",
        "math_answer": f"{_HERE}.checks_math:math_answer",
        "math_solution": f"{_HERE}.checks_answers:math_solution",
        "math_review": f"{_HERE}.checks_answers:math_review",
        "handover": f"{_HERE}.checks_handover:handover",
        "progress": f"{_HERE}.checks_progress:progress",
        "searched": f"{_HERE}.checks_search:searched",
        "retrieved": f"{_HERE}.checks_search:retrieved",
        "reported": f"{_HERE}.checks_search:reported",
        "text_answer": f"{_HERE}.checks_search:text_answer",
    },
)


def find_check(path: Path, spec: str, options: Mapping[str, Any]) -> Check:
    """The check ``spec`` of the YAML file ``path``, after validating ``options`` against it.

    Raises CardError for an unknown name, for code of an untrusted card, and for options that the check does
    not accept. Options of built-in checks are numbers within 0-1.
    """
    spec = plugins.from_card(path, "check", spec, [path.parent])
    try:
        check: Check = CHECKS.find(spec)
        plugins.check_options(f"check={spec!r}", check, 1, options)
    except OptionError as error:
        raise CardError(f"{path}: {error}") from None
    if CHECKS.is_builtin(spec):
        for key, value in options.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
                raise CardError(
                    f"{path}: option {key!r} of {spec!r} must be between 0 and 1, found {value!r}."
                )
    return check
