r"""The wording of a problem, such that two copies of it agree and two problems do not.

Spacing, dollars, the case of words, the punctuation of prose and TeX's style are left out. What changes a
formula stays: operators, signs, decimal points, brackets, commas between values, commands, and what a power,
an index, a root or a fraction extends to.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from mappa_env.data.characters import as_tex
from mappa_env.data.groups import grouped
from mappa_env.data.markup import unmarked
from mappa_env.data.signs import SAME
from mappa_env.data.spelling import one_spelling

_STYLE = re.compile(
    r"(\\\\)|\\?\$|\\(?:begin|end) ?\{ ?(?:align|equation|gather|multline|eqnarray|displaymath|math|split"
    r"|center|enumerate|itemize)(?:ed|at)?\*? ?\}|\\[hv]space\*? ?\{[^{}]*\}"
    r"|\\(?:left|right|middle|[bB]igg?[lrm]?|(?:display|text|script)style|(?:no)?limits|nonumber|notag|item"
    r"|text(?:bf|it|rm|sf|tt|sc|up|normal)?|math(?:rm|bf|it|sf|tt|normal|bb|cal|scr|frak|op)|operatorname|[mh]box"
    r"|boldsymbol|pmb|bm|emph|rm|bf|it|sf|tt|em|q?quad|(?:neg)?(?:thin|med|thick)space|en(?:space|skip)|[hv]fill"
    r"|(?:small|med|big)skip|(?:no)?indent|allowbreak|newline|par)(?![A-Za-z])\*?|\\[,;!:> ()\[\]/-]|~"
)
_DOLLAR = "\x1f"
"""Stands for the dollars around a formula: a space, but not to a hyphen after it."""
_LOUD = re.compile(r"[A-Z]{4}")
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:(?:,|\{,\}|\\[,!])+\d{3})+(?![\d,])")
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[^\W\d_]+|\d+(?:\.\d+)?|\.\d+|\.{3}|\s+|.", re.DOTALL)
_SHORT = re.compile("A[mnst]|B[ey]|Do|[HMW]e|I[fnst]|My|No|O[fnr]|So|To|U[ps]")
"""Words of two letters; others, such as ``Ab``, may be a product."""
_OMITTED = frozenset(("s", "t", "d", "m", "re", "ve", "ll"))
"""What follows an apostrophe, besides longer words; before others, as in ``A'B'``, it is a prime."""
_BETWEEN = frozenset(",;:*_•")
"""Signs that count between two values, and are punctuation or markup elsewhere."""
_MARKS = frozenset('?"`.。“”„‟«»‹›‘‚—―')
_OPENS, _CLOSES = frozenset("([{|-+\u2026"), frozenset(")]}|'!%\u2026")


@functools.lru_cache(maxsize=16_384)
def normalise(text: str) -> str:
    """The wording of ``text``; see the module. A quarter of a millisecond for a contest problem."""
    text = one_spelling(as_tex(unmarked(text)))
    text = _GROUPED.sub(lambda number: re.sub(r"\D", "", number[0]), text)
    text = _STYLE.sub(lambda found: found[1] or (_DOLLAR if found[0][-1] == "$" else " "), text)
    if text.isupper() and _LOUD.search(text):
        text = text.lower()
    tokens = [SAME.get(token, token) for token in _TOKEN.findall(text)]
    return _joined(grouped(_meant(tokens))) or text


def _meant(tokens: list[str]) -> Iterator[str]:
    """The tokens without punctuation, spaces and the case of words; numbers begin with a digit."""
    for at, token in enumerate(tokens):
        if token.isalpha():
            yield token.lower() if _is_title(tokens, at) else token
        elif token[0].isdigit() or token[0] == "\\":
            yield token
        elif token.isspace() or token in _MARKS:
            continue
        elif token[0] == "." and len(token) > 1:
            yield f"0{token}"
        elif token == "-":
            if not _is_hyphen(tokens, at):
                yield token
        elif token in ("'", "!"):
            after = tokens[at + 1] if at + 1 < len(tokens) else " "
            omits = token == "'" and (after.lower() in _OMITTED or (_is_word(after) and len(after) > 2))
            if at and _is_value(tokens[at - 1], _CLOSES) and not omits:
                yield token
        elif token not in _BETWEEN or _is_between(tokens, at) or (token == "_" and _is_index(tokens, at)):
            yield "×" if token == "*" else token


def _is_title(tokens: list[str], at: int) -> bool:
    """Whether the first letter is a capital only because a sentence begins: ``A``, but not in ``A + B``."""
    token = tokens[at]
    if len(token) < 3:
        article = token == "A" and at + 2 < len(tokens) and tokens[at + 1] == " " and _is_word(tokens[at + 2])
        return article or bool(_SHORT.fullmatch(token))
    return token.istitle()


def _is_word(token: str) -> bool:
    """Not a single letter, and not a name such as ``AB``."""
    return token.isalpha() and len(token) > 1 and not token.isupper()


def _is_hyphen(tokens: list[str], at: int) -> bool:
    """Whether ``-`` joins words, or is a part of a dash: ``3-digit``, ``x-axis``; not in ``ab-cd``."""
    before, after = tokens[at - 1] if at else " ", tokens[at + 1] if at + 1 < len(tokens) else " "
    if "-" in (before, after):
        return True
    if before.isspace() and before != _DOLLAR:
        before = tokens[at - 2] if at > 1 else ""
        after = tokens[at + 2] if after.isspace() and at + 2 < len(tokens) else ""
        return _is_word(before) and _is_word(after) and len(before + after) > 4
    return _is_word(after) and not (_is_word(before) and len(before + after) == 4)


def _is_between(tokens: list[str], at: int) -> bool:
    """Whether a value ends before the token, and one begins after it."""
    left = next((each for each in reversed(tokens[max(at - 3, 0) : at]) if not each.isspace()), " ")
    right = next((each for each in tokens[at + 1 : at + 4] if not each.isspace()), " ")
    return _is_value(left, _CLOSES) and _is_value(right, _OPENS)


def _is_index(tokens: list[str], at: int) -> bool:
    """Whether ``_`` lowers what follows a name: ``log_2``, ``area_{1}``; not in ``_the sum_``."""
    before, after = tokens[at - 1] if at else " ", tokens[at + 1] if at + 1 < len(tokens) else " "
    return before.isalpha() and (after[0].isdigit() or after == "{" or (after.isalpha() and len(after) == 1))


def _is_value(token: str, brackets: frozenset[str]) -> bool:
    if token.isalpha():
        return not _is_word(token)
    sign = token[0] == "\\" or not token.isascii()
    return token[0].isdigit() or token in brackets or (sign and token not in _MARKS)


def _joined(tokens: list[str]) -> str:
    """The tokens as one text; numbers that follow each other stay apart."""
    parts: list[str] = []
    for token in tokens:
        if parts and token[0].isdigit() and parts[-1][-1].isdigit():
            parts.append(" ")
        parts.append(token.lstrip("\\") if len(token) > 2 else token)
    return "".join(parts)
