r"""The wording of a problem, such that two copies of it agree and two problems do not.

Spacing, dollars, the case of words, the punctuation of prose and TeX's style are left out. What changes a
formula stays: operators, signs, decimal points, brackets, commas between values, commands, and what a power,
an index, a root or a fraction extends to.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator

_STYLE = re.compile(
    r"(\\\\)|\\?\$|\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits|nolimits|text(?:bf|it|rm|sf|normal)?"
    r"|math(?:rm|bf|it|sf|normal)|operatorname|mbox|boldsymbol|emph|q?quad|(?:begin|end)\{(?:align|equation"
    r"|gather)(?:ed)?\*?\}|(?:no)?indent|allowbreak|par)(?![A-Za-z])\*?|\\[,;!: ()\[\]]|~"
)
_DOLLAR = "\x1f"
"""Stands for the dollars around a formula: a space, but not to a hyphen after it."""
_LOUD = re.compile(r"[A-Z]{4}")
_RAISED = re.compile(r"(?:\^[^\s^]){2,}|(?:_[^\s_]){2,}")
"""Characters that are raised or lowered one by one."""
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:(?:,|\{,\}|\\[,!])+\d{3})+(?![\d,])")
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[^\W\d_]+|\d+(?:\.\d+)?|\.\d+|\.{3}|\s+|.", re.DOTALL)
_SAME = {
    **dict.fromkeys(("\\cdot", "\\times", "\u00d7", "\u00b7", "\u22c5", "\u2217"), "*"),
    **dict.fromkeys(("\\div", "\u00f7", "\u2215", "\u2044"), "/"),
    **dict.fromkeys(("\u2212", "\u2010", "\u2011", "\u2013"), "-"),
    **dict.fromkeys(("\\leq", "\\le", "\\leqslant", "\u2264", "\u2a7d"), "<="),
    **dict.fromkeys(("\\geq", "\\ge", "\\geqslant", "\u2265", "\u2a7e"), ">="),
    **dict.fromkeys(("\\neq", "\\ne", "\u2260"), "!="),
    **dict.fromkeys(("\\dfrac", "\\tfrac", "\\cfrac"), "\\frac"),
    **dict.fromkeys(("\\dbinom", "\\tbinom"), "\\binom"),
    **dict.fromkeys(("\\ldots", "\\dots", "\\cdots", "\\dotsc", "\\dotsb", "\\dotsm", "..."), "\u2026"),
    **dict.fromkeys(("\\lvert", "\\rvert", "\\vert", "\\mid"), "|"),
    **dict.fromkeys(("\\prime", "\u2019", "\u2032"), "'"),
    **{"\\lt": "<", "\\gt": ">", "\\%": "%", "\\&": "&", "\\#": "#", "\\_": "_", "\\lbrace": "\\{"},
    **{"\\rbrace": "\\}", "\\\\": ";", "\u221a": "\\sqrt", "\u03c0": "\\pi", "\u00b1": "\\pm"},
    **{"\u221e": "\\infty", "\u2220": "\\angle", "\u25b3": "\\triangle", "\u2208": "\\in"},
}
"""Other ways to write a token."""
_ARGUMENTS = {"^": 1, "_": 1, "\\sqrt": 1, "\\frac": 2, "\\binom": 2}
"""What applies to so many groups; elsewhere braces change nothing."""
_DEEPEST = 100
"""Groups within groups beyond which braces stay as they are."""
_BETWEEN = frozenset(",;:*_")
"""Signs that count between two values, and are punctuation or markup elsewhere."""
_MARKS = frozenset('?"`.\u201c\u201d\u2018\u2014\u2033\u2022')
_OPENS, _CLOSES = frozenset("([{|-+\u2026"), frozenset(")]}|'!%\u2026")


@functools.lru_cache(maxsize=16_384)
def normalise(text: str) -> str:
    """The wording of ``text``; see the module. A tenth of a millisecond for a contest problem."""
    text = _plain(text.strip()).replace("\u00b0", r"^\circ").replace(r"\degree", r"^\circ")
    text = _GROUPED.sub(lambda number: re.sub(r"\D", "", number[0]), text)
    text = _STYLE.sub(lambda found: found[1] or (_DOLLAR if found[0][-1] == "$" else " "), text)
    if text.isupper() and _LOUD.search(text):
        text = text.lower()
    tokens = [_SAME.get(token, token) for token in _TOKEN.findall(text)]
    return _joined(_grouped(list(_meant(tokens)))) or text


def _plain(text: str) -> str:
    """Characters in their usual form, with powers and indices as TeX writes them."""
    if text.isascii():
        return text
    text = "".join(map(_character, unicodedata.normalize("NFC", text)))
    return _RAISED.sub(lambda found: f"{found[0][0]}{{{found[0][1::2]}}}", text)


def _character(letter: str) -> str:
    kind, _, _ = unicodedata.decomposition(letter).partition(" ")
    plain = unicodedata.normalize("NFKC", letter) if kind.startswith("<") else letter
    before = {"<super>": "^", "<sub>": "_", "<fraction>": " "}.get(kind, "")
    return f"{before}{plain}"


def _meant(tokens: list[str]) -> Iterator[str]:
    """The tokens without punctuation, spaces and the case of words; numbers begin with a digit."""
    for at, token in enumerate(tokens):
        if token.isalpha():
            yield token.lower() if token.istitle() and (len(token) > 1 or _is_article(tokens, at)) else token
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
            if at and _is_value(tokens[at - 1], _CLOSES) and not (token == "'" and after.isalpha()):
                yield token
        elif token not in _BETWEEN or _is_between(tokens, at):
            yield token


def _is_article(tokens: list[str], at: int) -> bool:
    """Whether ``A`` is one: before a word, not in ``A + B``."""
    return tokens[at] == "A" and at + 2 < len(tokens) and tokens[at + 1] == " " and _is_word(tokens[at + 2])


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


def _is_value(token: str, brackets: frozenset[str]) -> bool:
    if token.isalpha():
        return not _is_word(token)
    return token[0].isdigit() or token in brackets or token[0] == "\\"


def _grouped(tokens: list[str]) -> list[str]:
    """The tokens with braces only around what a power, an index, a root or a fraction extends to."""
    found: list[str] = []
    rest = tokens[::-1]

    def one(expected: bool, depth: int) -> None:
        """Take the next group, or the next token."""
        token, begin = rest.pop(), len(found)
        if depth > _DEEPEST:
            found.append(token)
        elif token == "{":
            while rest and rest[-1] != "}":
                one(False, depth + 1)
            if rest:
                rest.pop()
            if expected and (len(found) - begin != 1 or (len(found[begin]) > 1 and found[begin].isalpha())):
                found[begin:] = ["{", *found[begin:], "}"]
        elif token != "}":
            found.append(token)
            wanted = _ARGUMENTS.get(token, 0)
            for _ in range(wanted):
                if (
                    rest
                    and len(rest[-1]) > 1
                    and (rest[-1].isalpha() or (wanted == 2 and rest[-1].isdigit()))
                ):
                    run = rest.pop()  # TeX takes one letter, or one digit: \frac12, x^ny
                    rest.extend((run[1:], run[0]))
                if rest and rest[-1] != "}":
                    one(True, depth + 1)

    while rest:
        one(False, 0)
    return found


def _joined(tokens: list[str]) -> str:
    """The tokens as one text; numbers that follow each other stay apart."""
    parts: list[str] = []
    for token in tokens:
        if parts and token[0].isdigit() and parts[-1][-1].isdigit():
            parts.append(" ")
        parts.append(token.lstrip("\\") if len(token) > 2 else token)
    return "".join(parts)
