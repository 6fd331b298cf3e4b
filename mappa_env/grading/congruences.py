r"""Congruences such as ``x \equiv 3 \pmod 7``: whole numbers by their remainder."""

from __future__ import annotations

import re
from fractions import Fraction

from mappa_env.grading.latex import CLOSE, OPEN
from mappa_env.grading.numbers import Number
from mappa_env.grading.tree import Sequence, Words

_CONGRUENCE = re.compile(
    r"([A-Za-z]) ?\\equiv ?([+-]?[0-9]{1,30}) ?,? ?\(? ?"
    rf"(?:\\(?:pmod|bmod|mod|pod)|{OPEN} ?mod ?{CLOSE}|mod) ?\{{? ?([1-9][0-9]{{0,30}}) ?\}}? ?\)?"
)


def congruence(text: str) -> Sequence | None:
    """The remainder and the modulus that a cleaned text says of a letter; None if it is anything else."""
    if not (found := _CONGRUENCE.fullmatch(text)):
        return None
    modulus = int(found[3])
    remainder = Number(Fraction(int(found[2]) % modulus))
    return Sequence("phrase", (remainder, Words("mod"), Number(Fraction(modulus))), (found[1],))
