"""The unit at the end of an expression, which algebra would take for a factor or overlook."""

from __future__ import annotations

import re

from mappa_env.grading.latex import CLOSE, OPEN, TRIGONOMETRY
from mappa_env.grading.unit_names import is_measure, joined
from mappa_env.grading.units import Unit, unit_of

_POWER = re.compile(r" ?(?:\^ ?(?:\{ ?([23]) ?\}|([23]))|([²³]))$")
_COMMAND = re.compile(r"\\([A-Za-z]+) ?$")
_BARE = re.compile(r"(?<![A-Za-z])[A-Za-z]{1,20}(?:/[A-Za-z]{1,20})?$")
_VARIABLE = re.compile(r"(?<![\\A-Za-z])[A-Za-z]")
_PI = re.compile(r"(?:\\pi(?![A-Za-z])|π)")
_BELOW = re.compile(r"(?:/ ?|\} ?\{ ?[0-9]* ?)(?:\\pi(?![A-Za-z])|π)")


def without_unit(text: str) -> tuple[str, str]:
    """A cleaned expression without its unit, and that; words that multiply become a factor."""
    if text.endswith("°") and not TRIGONOMETRY.search(text):
        return (text[:-1].rstrip(), "°") if is_complete(text[:-1].rstrip()) else (text, "")
    end, power = text, ""
    if found := _POWER.search(text[-8:]):
        power = {"²": "2", "³": "3"}.get(found[0].strip(), found[1] or found[2])
        end = text[: len(text) - len(found[0])]
    if end.endswith(CLOSE):
        at = end.rfind(OPEN)
        name = end[at + 1 : -1]
    elif found := _BARE.search(end[-30:]):
        at = len(end) - len(found[0])
        name = found[0]
        if not _stands_apart(end[:at], name):
            return text, ""
    else:
        return text, ""
    body, degrees = end[:at].rstrip(), ""
    if body.endswith("°"):
        body, degrees = body[:-1].rstrip(), "°"
    if not is_complete(body):
        return text, ""
    unit = unit_of(name, power, marked=True)
    return (text, "") if unit is None else _apart(text, body, unit, degrees)


def is_complete(body: str) -> bool:
    """Whether nothing has to follow an expression."""
    if command := _COMMAND.search(body[-20:]):
        return command[1] in ("pi", "theta", "alpha", "beta", "gamma", "lambda", "mu", "phi", "omega")
    return bool(body) and body[-1] not in "+-×/*^_=<>≤≥≠≈∈∪±∓,;:([{&|" + OPEN


def is_radian(text: str) -> bool:
    """Whether it is a multiple of pi, as angles in radians are."""
    return len(_PI.findall(text)) > len(_BELOW.findall(text))


def _apart(text: str, body: str, unit: Unit, degrees: str) -> tuple[str, str]:
    name = joined("" if unit.name == "%" else unit.name, "", degrees)
    if name is None:
        return text, ""
    if unit.name == "%":
        body = f"{body}%"
    return (f"{unit.scale}×({body})" if unit.scale != 1 else body), name


def _stands_apart(before: str, name: str) -> bool:
    """Whether a name without a text command is a unit, and no product of variables."""
    if not is_measure(name):
        return False
    if len(name) == 1:
        return before.endswith(" ") and not before[-2:-1].isalpha() and not _VARIABLE.search(before)
    return before.endswith(" ") or (len(name) > 3 and not before[-1:].isalpha())
