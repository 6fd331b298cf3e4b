"""Compares expressions through math-verify, in processes that the host can lose. One JSON line in, one out.

It runs by its path and imports nothing from ``mappa_env``. The first process loads the libraries and parses
something of each kind. Then it only forks: a worker for each socket that it gets, ready within milliseconds.
It uses only the LaTeX parser of math-verify, because the plain-expression parser passes the text to ``eval``.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import resource
import signal
import socket
from collections.abc import Callable
from typing import Any

MEMORY_BYTES = 2 << 30
SPARE_DIGITS = 60
"""Digits of a comparison beyond those of the values."""
MOST_DIGITS = 50_000
"""Longer constants are equal only if they are written alike."""
ACCURATE_BITS = 8
"""Accurate bits of a difference that is not zero; five digits are asked for."""
EXAMPLES = (
    r"\frac{1}{2}+\sqrt[3]{x}^{2}",
    r"\begin{pmatrix}1&x\\0&\pi\end{pmatrix}",
    r"\{1,2\}",
    r"[0,1)\cup (2,\infty)",
    r"2x+3y=5",
    r"x^2\le 4",
    r"\sin(2x)",
    r"5!\cdot\log_{2}{5}",
    r"\text{odd}",
)


def main() -> None:
    """Load everything, say ``ready``, and fork a worker for each socket that arrives, until EOF."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps
    control = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a worker must not hold the forker's socket open
    os.dup2(2, 1)  # keeps output of the libraries out of the protocol
    logging.disable(logging.CRITICAL)
    equal, readable = _comparison()
    for example in EXAMPLES:
        equal(example, example)
        equal(example, "x+1")
    control.sendall(b"ready\n")
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return
        for descriptor in descriptors:
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                control.close()
                _serve(socket.socket(fileno=descriptor), equal, readable)
                os._exit(0)
            os.close(descriptor)


def _serve(
    link: socket.socket, equal: Callable[[str, str], bool | None], readable: Callable[[str], bool]
) -> None:
    """Answer ``{"pairs": [[gold, answer]], "golds": [...], "cpu_s": seconds}`` until EOF.

    The reply is ``{"equal": [true, false or null], "readable": [...]}``; null: the answer cannot be read. The
    system ends this process if an answer takes more processor time, whatever the library is doing.
    """
    replies = link.makefile("w")
    for line in link.makefile("r"):
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, request["cpu_s"])
        reply = {
            "equal": [equal(gold, answer) for gold, answer in request["pairs"]],
            "readable": [readable(gold) for gold in request["golds"]],
        }
        signal.setitimer(signal.ITIMER_PROF, 0)
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _comparison() -> tuple[Callable[[str, str], bool | None], Callable[[str], bool]]:
    import math_verify
    from latex2sympy2_extended import NormalizationConfig
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig
    from math_verify import parser

    # R and r are two symbols.
    parser.latex2sympy = functools.partial(
        parser.latex2sympy, conversion_config=ConversionConfig(lowercase_symbols=False)
    )
    latex = math_verify.LatexExtractionConfig(
        try_extract_without_anchor=False,
        boxed_match_priority=0,
        normalization_config=NormalizationConfig(  # the host took the units away; h is a factor
            units=False, malformed_operators=True, nits=True, boxed="all"
        ),
    )

    def parse(text: str) -> list[Any]:
        parsed: list[Any] = math_verify.parse(
            rf"\boxed{{{text}}}", [latex], fallback_mode="no_fallback", parsing_timeout=None
        )
        return parsed

    parse_gold = functools.lru_cache(maxsize=256)(parse)

    def equal(gold: str, answer: str) -> bool | None:
        golds, answers = parse_gold(gold), parse(answer)
        if not answers:
            return None
        if not golds:
            return False
        found = _attempt(_same_constant, golds[0], answers[0])
        if found is not None:
            return found
        if _attempt(_differ, golds[0], answers[0]):
            return False
        return bool(
            math_verify.verify(
                golds, answers, float_rounding=12, allow_set_relation_comp=True, timeout_seconds=None
            )
        )

    def readable(gold: str) -> bool:
        golds = parse_gold(gold)
        return bool(golds) and not _attempt(_has_no_value, golds[0])

    return equal, readable


def _attempt(ask: Callable[..., bool | None], *values: Any) -> bool | None:
    """What ``ask`` says; None if the algebra fails on these values."""
    try:
        return ask(*values)
    except (ArithmeticError, TypeError, ValueError, AttributeError, NotImplementedError):
        return None


def _has_no_value(value: Any) -> bool:
    """Whether it is a division by zero."""
    from sympy import Expr, nan, zoo

    return isinstance(value, Expr) and not value.free_symbols and value.doit() in (nan, zoo)


def _exact(value: Any) -> Any:
    """The value with decimals as fractions; None if it is not a finite constant."""
    from sympy import Expr, Float, Rational

    if not isinstance(value, Expr) or value.free_symbols:
        return None
    value = value.doit()
    value = value.xreplace({each: Rational(str(each)) for each in value.atoms(Float)})
    return value if value.is_number and value.is_finite else None


def _same_constant(gold: Any, answer: Any) -> bool | None:
    """Whether two constants are equal; None if it cannot be said.

    Fractions are compared exactly. Others are equal if they differ in no digit down to the smallest part.
    """
    first, second = _exact(gold), _exact(answer)
    if first is None or second is None:
        return None
    if first == second:
        return True
    if first.is_Rational and second.is_Rational:
        return False
    digits = SPARE_DIGITS + 2 * (_digits(first) + _digits(second))
    if digits > MOST_DIGITS:
        return False
    parts = (first - second).evalf(5, maxn=digits).as_real_imag()
    if not all(part.is_Float or part.is_Rational for part in parts):
        return None
    return not any(_is_known(part) for part in parts)


def _is_known(value: Any) -> bool:
    """Whether it is not zero. A number that is all rounding error has next to no accurate bits."""
    return bool(value != 0) and (value.is_Rational or value._prec >= ACCURATE_BITS)


def _digits(value: Any) -> int:
    """The decimal digits before or after the point that the parts of a constant have, together."""
    from sympy import preorder_traversal

    return sum(_magnitude(each) for each in preorder_traversal(value) if each.is_number)


def _magnitude(value: Any) -> int:
    if value.is_Rational:
        return int((value.p.bit_length() + value.q.bit_length()) * 0.302)
    parts = [part for part in value.evalf(3, maxn=20).as_real_imag() if part.is_Float and part != 0]
    return max((int(abs(part._mpf_[2] + part._mpf_[3]) * 0.302) for part in parts), default=0)


def _differ(gold: Any, answer: Any) -> bool:
    """Whether two formulas, matrices or equations certainly differ: in their values at whole numbers.

    The library rounds coefficients, so what it takes for equal may be far apart.
    """
    from sympy import Expr
    from sympy.matrices import MatrixBase

    if isinstance(gold, MatrixBase) and isinstance(answer, MatrixBase):
        return gold.shape == answer.shape and any(map(_entries_differ, gold, answer))
    if gold.is_Equality and answer.is_Equality and gold.free_symbols != answer.free_symbols:
        return True
    if gold.free_symbols != answer.free_symbols or not gold.free_symbols:
        return False
    if isinstance(gold, Expr) and isinstance(answer, Expr):
        return any(_same_constant(gold.xreplace(at), answer.xreplace(at)) is False for at in _points(gold))
    if gold.is_Equality and answer.is_Equality:
        return _unlike(gold.lhs - gold.rhs, answer.lhs - answer.rhs)
    return False


def _entries_differ(gold: Any, answer: Any) -> bool:
    found = _attempt(_same_constant, gold, answer)
    return found is False or (found is None and bool(_attempt(_differ, gold, answer)))


def _points(value: Any) -> list[dict[Any, Any]]:
    """Two choices of whole numbers for the symbols."""
    from sympy import Integer

    symbols = sorted(value.free_symbols, key=str)
    return [{each: Integer(n) for n, each in enumerate(symbols, start)} for start in (3, 7)]


def _unlike(gold: Any, answer: Any) -> bool:
    """Whether one is certainly no multiple of the other."""
    (g1, a1), (g2, a2) = ((gold.xreplace(at), answer.xreplace(at)) for at in _points(gold))
    return _same_constant(g1 * a2, g2 * a1) is False


if __name__ == "__main__":
    main()
