"""The groups of a formula: braces stay only around what a power, a root or a fraction extends to."""

from __future__ import annotations

from collections.abc import Iterable

_ARGUMENTS = {
    **dict.fromkeys(("^", "_", r"\sqrt", r"\bar", r"\hat", r"\tilde", r"\vec", r"\dot", r"\ddot"), 1),
    **dict.fromkeys((r"\underline", r"\overbrace", r"\underbrace"), 1),
    **dict.fromkeys((r"\frac", r"\binom"), 2),
}
"""What applies to so many groups; elsewhere braces change nothing."""
_HALVES = {r"\choose": r"\binom", r"\over": r"\frac"}
"""What stands between the two halves of its group -> what stands before two groups."""
_DEEPEST = 100
"""Groups within groups beyond which braces stay as they are."""


def grouped(tokens: Iterable[str]) -> list[str]:
    """The tokens, with each group in one form. Braces around a list are those of a set."""
    found: list[str] = []
    rest = list(tokens)[::-1]

    def one(expected: bool, depth: int) -> None:
        """Take the next group, or the next token."""
        token, begin = rest.pop(), len(found)
        if depth > _DEEPEST:
            found.append(token)
            return
        if token == "{":
            while rest and rest[-1] != "}":
                one(False, depth + 1)
            if rest:
                rest.pop()
            found[begin:] = _halved(found[begin:])
            if not expected and _is_list(found[begin:]):
                found[begin:] = [r"\{", *found[begin:], r"\}"]
        elif token == r"\pmod":
            found.extend(("(", "mod"))
            if rest and rest[-1] != "}":
                one(False, depth + 1)
            found.append(")")
        elif token != "}":
            found.append(token)
            if expected and token == "-" and rest and rest[-1].isalnum():
                one(False, depth + 1)  # x^-1
            for _ in range(_ARGUMENTS.get(token, 0)):
                argument(token, depth + 1)
        if expected:
            found[begin:] = _closed(found[begin:])

    def argument(of: str, depth: int) -> None:
        """Take an argument of the command ``of``; TeX takes one letter, or one digit: \\frac12, x^ny."""
        if of == r"\sqrt" and rest and rest[-1] == "[":
            while rest and rest[-1] not in ("]", "}"):
                one(False, depth)
            if rest and rest[-1] == "]":
                found.append(rest.pop())
        elif of == r"\sqrt" and rest and rest[-1] == "(":
            bracketed(depth)
            return
        run = rest[-1] if rest else ""
        if len(run) > 1 and (run.isalpha() or (_ARGUMENTS[of] == 2 and run.isdigit())):
            rest[-1:] = run[1:], run[0]
        if rest and rest[-1] != "}":
            one(True, depth)

    def bracketed(depth: int) -> None:
        """Take the brackets after the sign of a root as its group: √(x+1)."""
        rest.pop()
        begin, opened = len(found), 1
        while rest and rest[-1] != "}":
            opened += (rest[-1] == "(") - (rest[-1] == ")")
            if not opened:
                rest.pop()
                break
            one(False, depth)
        found[begin:] = _closed(found[begin:])

    while rest:
        one(False, 0)
    return found


def _halved(inner: list[str]) -> list[str]:
    r"""``n \choose k`` as ``\binom n k``."""
    for between, before in _HALVES.items():
        if between in inner:
            at = inner.index(between)
            return [before, *_closed(inner[:at]), *_closed(inner[at + 1 :])]
    return inner


def _closed(inner: list[str]) -> list[str]:
    """In braces, unless it is one sign, one letter or one number."""
    if len(inner) == 1 and (len(inner[0]) == 1 or not inner[0].isalpha()):
        return inner
    return ["{", *inner, "}"]


def _is_list(inner: list[str]) -> bool:
    """Whether commas divide it that are in no brackets."""
    depth = 0
    for token in inner:
        if token == "," and not depth:
            return len(inner) > 1
        depth += (token in ("(", "[", r"\{")) - (token in (")", "]", r"\}"))
    return False
