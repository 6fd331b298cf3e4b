"""A rubric check: ``check: "check.py:decides"`` in rubric.yaml."""

from mappa_env.coach.rubric.case import Case, Finding


def decides(case: Case, *, hedged: float = 0.5) -> Finding:
    """Whether the answer is "even" or "odd"; ``hedged``: the score where it names both."""
    named = {word for word in ("even", "odd") if word in case.answer.lower()}
    score = (0.0, 1.0, hedged)[len(named)]
    return Finding(score, f"names {' and '.join(sorted(named)) or 'neither'}", case.me if score < 1 else None)
