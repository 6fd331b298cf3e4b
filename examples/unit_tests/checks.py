"""Rubric checks: ``check: "checks.py:solves"`` in rubric.yaml."""

from collections.abc import Mapping

from mappa_env.coach.rubric.case import Case, Finding


def solves(case: Case) -> Finding:
    """For who writes the function: the share of the hidden tests that pass now."""
    now = share(case, last=case.evidence.step)
    return Finding(now, f"{now:.0%} of the hidden tests pass", case.me if now < 1 else None)


def reviews(case: Case, *, missed: float = 0.3) -> Finding:
    """For who repairs it: whether the function has become better; ``missed``: a fault was left as it was."""
    before, now = share(case, last=len(case.before) - 1), share(case, last=case.evidence.step)
    if now < before:
        return Finding(0.0, f"{before:.0%} of the hidden tests passed, now {now:.0%}", case.me)
    if now == before < 1:
        author = case.evidence.present.get("solution.py")
        return Finding(missed, f"{now:.0%} of the hidden tests pass, as before", author and author.agent)
    return Finding(now, f"{now:.0%} of the hidden tests pass", case.me if now < 1 else None)


def share(case: Case, last: int) -> float:
    """The share of the hidden tests that passed after the action ``last``, by what the probe saw."""
    probes = [*(action.probe for action in case.evidence.history), case.evidence.probe][: last + 1]
    facts: Mapping[str, int] = next((each for each in reversed(probes) if each), {"passed": 0, "tests": 1})
    return facts["passed"] / facts["tests"]
