"""What stands behind the expression of a plan and is no part of it: a remark, a unit, the value it gives."""

from __future__ import annotations

import re

from mappa_env.coach.rubric.plans.words import LONE_OPERATIONS, OPERATIONS, QUANTITIES, RESULTS, any_of

_GIVES = re.compile(r"\s*(?:[-=]>|→|⇒|⟹)")
_REMARK = re.compile(r"(?<=[^\s+\-*/%=,(])\s+\([^()]*[A-Za-z][^()]*\)$")
_GIVEN = re.compile(
    r"(?<=[0-9)\]])[.,;]?\s+(?:this|which|that|it)\s+(?:gives|is|equals|yields)\s+(?:the\s+)?[^0-9+*/()\[\]]*$",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"(?:[;.]|,)\s+[A-Za-z][^0-9+*/()\[\]]*$")
_WORD = r"[A-Za-z]{2,20}"
_UNIT = re.compile(
    rf"(?<=[0-9)\]])\s+(?P<unit>{_WORD}(?: {_WORD})?)"
    rf"(?: (?:per|for|in)(?: (?:the|each|every))? (?P<each>{_WORD}))?$"
)
_CHANGES = any_of(OPERATIONS, LONE_OPERATIONS, QUANTITIES, RESULTS, "digit")
_COMPUTES = re.compile(
    r"\b(?:plus|minus|times|over|by|per|divided?|multiply|multiplied|add|subtract|squared|cubed|mod|modulo|choose|factorial|percent|"
    r"dozens?|hundreds?|thousands?|millions?|billions?|half|halves|pairs?|squares?|cubes?|more|less|twice|"
    r"and|or|not|if|else|for|in|is|then|to|degrees?|radians?)\b",
    re.IGNORECASE,
)
"""Words that may change a value: an expression before them is not the whole plan."""


def without_remarks(text: str) -> str:
    """``text`` up to an arrow, a remark in parentheses that has letters, a clause in words or a unit."""
    bare, *given = _GIVES.split(text, maxsplit=1)
    if given and _COMPUTES.search(given[0]):
        return text  # the arrow leads to the next step
    bare = bare.strip()
    bare = _REMARK.sub("", bare)
    given_in = _GIVEN.search(bare)
    if given_in is not None and not _CHANGES.search(given_in[0]):
        bare = bare[: given_in.start()]
    clause = _CLAUSE.search(bare)
    if clause is not None and not _COMPUTES.match(clause[0].lstrip(",;. ")):
        bare = bare[: clause.start()]
    unit = _UNIT.search(bare)
    if unit is None or any(
        _COMPUTES.search(word or "") or _CHANGES.search(word or "") for word in unit.groups()
    ):
        return bare
    return bare[: unit.start()]
