r"""Left sides of ``... = 5``: which name or define the wanted quantity, and which are an unsolved equation.

``x``, ``f(3)``, ``m + n``, ``|AB|`` and ``\text{Area}`` are what is asked for. ``2x``, ``x^2``, ``-x`` and
``\sqrt{x}`` are functions of one unknown, whose value is still to be found. ``\text{not } x`` denies it.
"""

from __future__ import annotations

import re
from importlib import resources

import yaml

from mappa_env.grading.brackets import depths
from mappa_env.grading.latex import CLOSE, OPEN
from mappa_env.grading.units import denials

MAX_NAME = 40
"""Characters of the longest name."""
MAX_LEFT = 200
"""Characters of the longest left side that is read."""

_LISTS = yaml.safe_load(resources.files(__package__).joinpath("naming.yaml").read_text(encoding="utf-8"))
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_LETTERS = frozenset(_LISTS["letters"])
_ACCENTS = frozenset(_LISTS["accents"])
_SHAPES = frozenset(_LISTS["shapes"])
_QUANTITIES = frozenset(_LISTS["quantities"])
"""Commands of quantities that need no unknown."""
_OPERATIONS = frozenset(_LISTS["operations"])
_KNOWN = _LETTERS | _ACCENTS | _SHAPES | _QUANTITIES | _OPERATIONS
_NAME = re.compile(
    r"(?:\\[A-Za-z]+(?![A-Za-z])|[A-Za-z]|_[A-Za-z0-9]|_ ?\{[^{}]*\}|"
    r"\((?:\\[A-Za-z]+(?![A-Za-z])|[A-Za-z0-9, -])*\)|\|[A-Za-z0-9+ -]*\||[{}':, ])+"
)
_ONE_UNKNOWN_SIZE = re.compile(r"\| ?[a-z](?: ?[+-] ?[0-9]+)? ?\|")
_SIGNED_CALL = re.compile(r"\( ?-? ?[0-9]* ?[A-Za-z]? ?\)")
_OTHERS = re.compile(r"[^ -~°×√²³π∞∅∪\x01\x02" + OPEN + CLOSE + "\ue000-\uf8ff]")
_FACTOR = re.compile(r"(?:[+-] ?|[0-9.]+(?![0-9.]) ?×? ?|\\frac ?\{[0-9]+\} ?\{[0-9]+\} ?)+(?=.)")
_PARTS = (
    re.compile(rf"{OPEN}[^{OPEN}{CLOSE}]*[A-Za-z][^{OPEN}{CLOSE}]*{CLOSE}"),
    re.compile(
        r"\\(?:bar|hat|tilde|vec|overline|over[a-z]+arrow|wide[a-z]+|math[a-z]+) ?(?:\{[^{}]*\}|[A-Za-z])"
    ),
    re.compile(r"\\(?:sin|cos|tan|cot|sec|csc) ?[({]? ?(?:\\angle ?)?(?:[A-Z]+|\\[a-z]+) ?[)}]?"),
    re.compile(
        r"(?:\\(?!log|ln|lg|lim|sum|prod|max|min|int|gcd)[A-Za-z]+|[A-Za-z\ue000-\uf8ff])"
        r" ?_ ?(?:\{[^{}]*\}|[A-Za-z0-9\ue000-\uf8ff])"
    ),
    re.compile(r"\[ ?[A-Z]{3,9} ?\]|(?<![\\A-Za-z])[A-Z]{2,9}(?![A-Za-z(])"),
    re.compile(r"[A-Za-z\ue000-\uf8ff](?:'+|\^ ?(?:\*|\\star|\\ast|\\prime|\{ ?(?:\*|\\prime) ?\}))"),
    re.compile(r"\( ?[A-Za-z](?: ?\\circ ?[A-Za-z])+ ?\) ?\([^()]*\)"),
    re.compile(r"[A-Za-z\ue000-\uf8ff](?:\^ ?\{ ?-1 ?\})?\([^()]*\)"),
    re.compile(r"\\?\| ?(?:[A-Zabcu-wz\ue000-\uf8ff]|[A-Z]+) ?\\?\|"),
)
"""Names with several characters, in the order in which they become one."""
_SEGMENTS = re.compile(r"(?<![\\A-Za-z])[A-Z]{2,9}(?![A-Za-z])")
_SEGMENT = re.compile(r"(?<![\\A-Za-z])[A-Z]{2}(?![A-Za-z])")
_SQUARE = re.compile(r"[A-Z]{2} ?\^ ?(?:2|\{ ?2 ?\})")
_COORDINATES = frozenset("uvwxyz")
"""Letters that are the unknowns of a curve or of a system, rather than what is asked for."""
_SIZE = re.compile(r"(?<!\\)\| ?[u-z] ?\|")
_NUMBER_TERM = re.compile(r"(?:^|[+-]) ?(?:[0-9.]+|\\frac ?\{[0-9]+\} ?\{[0-9]+\}) ?(?=[+-]|$)")
_UNKNOWN = re.compile(r"[A-Za-df-z\ue000-\uf8ff]|e(?! ?\^)")
_AROUND = re.compile(r"[(){} ]|m?\\(?:angle|measuredangle|triangle)(?![A-Za-z])")
_CALLED = re.compile(r"(?<=[A-Za-z])\([^()]*\)")
_BASE = re.compile(r"\\log ?_ ?(?:\{ ?[0-9]+ ?\}|[0-9])")
_FUNCTIONS = "fghpqFGHPQ"
_VARIABLES = re.compile(r"[A-Za-df-hj-z]")
_VARIABLE = re.compile(
    r"(?:\\[A-Za-z]+|[A-Za-z])(?:_[A-Za-z0-9]|_\{[A-Za-z0-9]+\}|\((?:\\[A-Za-z]+|[A-Za-z])\))?"
)
_DERIVATIVE = re.compile(
    r"\\frac ?\{ ?(?:d|\\partial)(?: ?\^ ?\{? ?([2-9]) ?\}?)? ?([A-Za-z]) ?\} ?"
    r"\{ ?(?:d|\\partial) ?([A-Za-z])(?: ?\^ ?\{? ?[2-9] ?\}?)? ?\}"
)
_OPERATOR = re.compile(r"\\frac ?\{ ?d ?\} ?\{ ?d ?[A-Za-z] ?\}")
_FUNCTION = re.compile(r"(\\?[A-Za-z]+)('{0,9})(?:\((\\[A-Za-z]+|[A-Za-z])\))?")


def is_name(text: str) -> bool:
    """Whether the text only names something: ``x_1``, ``f(2)``, ``(p, q)``, ``AB : CD``; not ``x + y``."""
    if len(text) > MAX_NAME or not _NAME.fullmatch(text) or text.upper() == text.lower():
        return False
    if any(name not in _LETTERS | _ACCENTS | _SHAPES for name in _COMMAND.findall(text)) or denials(
        _CALLED.sub("", text)
    ):
        return False
    return not (_ONE_UNKNOWN_SIZE.fullmatch(text) and text.strip("| ")[0] in "xyt") and not (
        _SIGNED_CALL.fullmatch(text) and any(c in text for c in "-0123456789")
    )


def is_variable(text: str) -> bool:
    """Whether the text is one symbol: ``x``, ``x_1``, ``\\theta``, ``f(x)``."""
    return _VARIABLE.fullmatch(text) is not None


def defines(left: str) -> bool:
    """Whether the left side of an equation names or defines what is asked for."""
    left = left.replace("°", "").strip()
    if len(left) > MAX_LEFT or left.upper() == left.lower() or _OTHERS.search(left):
        return False
    said = left if OPEN in left else _SEGMENT.sub("", left)  # the segment NO
    if denials(_CALLED.sub("", said)):  # P(not A) is a quantity
        return False
    if not _KNOWN.issuperset(_COMMAND.findall(left)):
        return False
    if is_name(left) or _SQUARE.fullmatch(left):
        return True
    level = depths(left)
    if any(level[term.start()] == 0 for term in _NUMBER_TERM.finditer(left)):
        return False
    if (factor := _FACTOR.match(left)) and is_name(left[factor.end() :]):
        return False
    text = _shortened(left)
    commands = set(_COMMAND.findall(text))
    return bool(commands & _QUANTITIES) or len(_unknowns(text)) != 1 or len(_AROUND.sub("", text)) == 1


def is_asked_for(left: str, *, constant: bool) -> bool:
    """Whether what a left side says is wanted, so that the right side alone, ``constant`` or not, answers.

    Others belong to an equation, such as ``x+y=5``, ``|z|=1`` and ``PV=nRT``, that is itself an answer.
    """
    if is_derivative(left) or _OPERATOR.match(left):
        return True
    if not defines(left):
        return False
    text = _shortened(left)
    if len(_AROUND.sub("", text)) == 1 and (constant or not _SEGMENTS.fullmatch(left)):
        return not _SIZE.search(left)
    if OPEN in left or ":" in left or set(_COMMAND.findall(left)) & _QUANTITIES:
        return True
    unknowns = _unknowns(text)
    if unknowns & _COORDINATES or _SIZE.search(left):
        return False
    return constant or (not _SEGMENTS.search(left) and all(name >= "\ue000" for name in unknowns))


def is_function(left: str) -> bool:
    """Whether a left side is a function of one name, such as ``A^{-1}``, but of no coordinate."""
    unknowns = _unknowns(_shortened(left)) if len(left) <= MAX_LEFT else set()
    return len(unknowns) == 1 and not unknowns & _COORDINATES and not _SIZE.search(left)


def has_variables(text: str) -> bool:
    """Whether a letter other than e and i, which are constants, occurs in a text, as pi is none."""
    return (
        not _LETTERS.isdisjoint(_COMMAND.findall(text))
        or _VARIABLES.search(_COMMAND.sub(" ", text)) is not None
    )


def derivatives(text: str) -> set[tuple[str, ...]]:
    """The order, the function and the variable of each derivative that is written as a fraction."""
    return {(found[1] or "1", found[2], found[3]) for found in _DERIVATIVE.finditer(text)}


def is_derivative(text: str) -> bool:
    """Whether the text is ``dy/dx`` as a fraction, of any order."""
    return len(text) <= MAX_NAME and _DERIVATIVE.fullmatch(text) is not None


def derived(text: str) -> int:
    """The order of the derivative that the text is, such as ``dy/dx``, ``y'`` and ``f''(x)``; 0 if none."""
    return _function(text)[1]


def has_unknowns(text: str) -> bool:
    """Whether there is a letter whose value is not known, as pi and e are."""
    return bool(_unknowns(text))


def same_name(one: str, other: str) -> bool:
    """Whether two left sides name the same: ``y``, ``f(x)`` and ``y(x)`` do, and their derivatives."""
    if one == other:
        return True
    (base, order, variable), (other_base, other_order, other_variable) = _function(one), _function(other)
    if order != other_order or (variable and other_variable and variable != other_variable):
        return False
    return base == other_base or ("y" in (base, other_base) and bool(variable or other_variable))


def _function(text: str) -> tuple[str, int, str]:
    """The letter of a function, how often it is derived, and its variable, if those are said."""
    if found := _DERIVATIVE.fullmatch(text[:MAX_NAME]):
        return found[2], int(found[1] or 1), found[3]
    bare = text.replace(" ", "").replace("{", "").replace("}", "")
    if found := _FUNCTION.fullmatch(bare):
        return found[1], len(found[2]), found[3] or ""
    return bare, 0, ""


def _shortened(text: str) -> str:
    """With each name as one character of its own."""
    known: dict[str, str] = {}
    text = _COMMAND.sub(r"\\\1 ", _BASE.sub(r"\\log", text)).replace(
        "  ", " "
    )  # so that no letter of one is a symbol
    for pattern in _PARTS:
        for _ in range(3):  # f(g(2))
            text = pattern.sub(
                lambda found: (
                    found[0]
                    if _is_product(found[0])
                    else known.setdefault(found[0], chr(0xE000 + len(known) % 6000))
                ),
                text,
            )
    return text


def _is_product(call: str) -> bool:
    """Whether ``n(n+1)`` is a product, whose first letter occurs again."""
    return "(" in call and call[0].isalpha() and call[0] not in _FUNCTIONS and call[0] in call[1:]


def _unknowns(text: str) -> set[str]:
    letters = {name for name in _COMMAND.findall(text) if name in _LETTERS}
    return letters | set(_UNKNOWN.findall(_COMMAND.sub(" ", text)))
