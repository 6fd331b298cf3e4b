"""Compares expressions through math-verify, in processes that the host can lose. One JSON line in, one out.

It runs by its path and imports nothing from ``mappa_env``. The first process loads the libraries and parses
something of each kind. Then it only forks: a worker for each socket that it gets, ready within milliseconds.
It uses only the LaTeX parser of math-verify, because the plain-expression parser passes the text to ``eval``.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import random
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

MEMORY_BYTES = 2 << 30
SPARE_DIGITS = 60
"""Digits of a comparison beyond those of the values."""
MOST_DIGITS = 50_000
"""Longer constants are equal only if they are written alike."""
ACCURATE_BITS = 8
"""Accurate bits of a difference that is not zero; five digits are asked for."""
FEWEST_PLACES = 6
"""At so many points formulas must have values, for these to say that they are equal."""
LARGEST_NUMBER = 10_000
MOST_NUMBERS = 8
"""Numbers in formulas around which they are compared, and the largest of them."""
EXAMPLES = (
    (r"\frac{1}{2}+\sqrt[3]{x}^{2}", "x+1"),
    (r"\begin{pmatrix}1&x\\0&\pi\end{pmatrix}", r"\begin{bmatrix}\frac{1}{2}&x\\0&2\end{bmatrix}"),
    (r"\{1,2\}", "x+1"),
    (r"[0,1)\cup (2,\infty)", r"[0,1)\cup (2,3]"),
    (r"2x+3y=5", r"3y+2x-5=0"),
    (r"x^2\le 4", "x+1"),
    (r"\sin(2x)", r"2\sin x\cos x"),
    (r"5!\cdot\log_{2}{5}", r"\binom{5}{2}"),
    (r"\text{odd}", "x+1"),
    (r"x^2-5x+6", "(x-2)(x-3)"),
    (r"\frac{1}{x}+\frac{2}{x+1}", r"\frac{3x+1}{x(x+1)}"),
    (r"\sqrt{3}+\sqrt{2}", r"\frac{1}{\sqrt{3}-\sqrt{2}}"),
    (r"\frac{7\pi}{3}", r"3+4i"),
    (r"e^{2x}+\ln 3", r"2^{-n}|x-1|"),
)
"""Of each kind of answer, a gold and an answer: what they load and parse first, workers need not."""


def main() -> None:
    """Load everything, say ``ready``, and fork a worker for each socket that arrives, until EOF."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    control = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a worker must not hold the forker's socket open
    os.dup2(2, 1)  # keeps output of the libraries out of the protocol
    logging.disable(logging.CRITICAL)
    equal, readable = _comparison()
    for gold, answer in EXAMPLES:
        equal(gold, gold)
        equal(gold, answer)
    ended, ends = socket.socketpair()
    ends.setblocking(False)
    signal.set_wakeup_fd(ends.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    links: dict[int, socket.socket] = {}
    control.sendall(b"ready\n")
    while True:
        ready, _, _ = select.select([control, ended], [], [])
        if ended in ready:
            ended.recv(65536)
            _report(links)
        if control in ready:
            message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            if not message:
                return
            for link in (socket.socket(fileno=each) for each in descriptors):
                if pid := os.fork():
                    links[pid] = link
                    continue
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                sys.excepthook = lambda *_: os._exit(1)  # an orderly exit takes longer than an answer
                for other in (control, ended, ends, *links.values()):
                    other.close()
                _serve(link, equal, readable)
                os._exit(0)


def _report(links: dict[int, socket.socket]) -> None:
    """Say of each worker that has ended ``{"ended": exit status, or minus the signal}`` on its own socket."""
    while links:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with links.pop(pid) as link, contextlib.suppress(OSError):  # the host may have closed it
            link.sendall(json.dumps({"ended": os.waitstatus_to_exitcode(status)}).encode() + b"\n")


def _serve(
    link: socket.socket, equal: Callable[[str, str], bool | None], readable: Callable[[str], bool]
) -> None:
    """Answer ``{"pairs": [[gold, answer]], "golds": [...], "cpu_s": seconds, "nice": n}`` until EOF.

    ``nice`` comes on top of the host's. The reply is ``{"equal": [true, false or null], "readable": [...]}``;
    null: the answer cannot be read. The system ends this process if an answer takes more processor time,
    whatever the library is doing. An answer that breaks the library ends it, too, with exit status 1.
    """
    replies, extra = link.makefile("w"), 0
    for line in link.makefile("r"):
        request = json.loads(line)
        os.nice(request["nice"] - extra)  # never less nice than the host, which may not be allowed
        extra = request["nice"]
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
        golds, answers = ([_with_i(each) for each in said] for said in (parse_gold(gold), parse(answer)))
        if not answers:
            return None
        if not golds:
            return False
        found = _attempt(_same_constant, golds[0], answers[0])
        if found is not None:
            return found
        if _attempt(_differ, golds[0], answers[0]):
            return False
        if _attempt(_agree, golds[0], answers[0]):
            return True
        return bool(
            math_verify.verify(
                golds, answers, float_rounding=12, allow_set_relation_comp=True, timeout_seconds=None
            )
        )

    def readable(gold: str) -> bool:
        golds = parse_gold(gold)
        return bool(golds) and not _attempt(_has_no_value, golds[0])

    return equal, readable


def _with_i(value: Any) -> Any:
    """The value with the imaginary unit for the letter i, beside which the library makes others not real."""
    from sympy import Basic, I, Symbol
    from sympy.core.relational import Relational
    from sympy.matrices import MatrixBase

    if isinstance(value, Relational):  # as it is, though it may be false
        return value.func(*map(_with_i, value.args), evaluate=False)
    if not isinstance(value, (Basic, MatrixBase)):
        return value
    letters = {each for each in value.free_symbols if isinstance(each, Symbol)}
    return value.xreplace({each: I if each.name == "i" else Symbol(each.name, real=True) for each in letters})


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


def _agree(gold: Any, answer: Any) -> bool:
    """Whether two formulas have equal values everywhere: to all digits, at many points of both signs.

    Only formulas whose functions are smooth between the points are compared so: simplification, which comes
    after this, is left to tell ``|x|`` and ``\\lfloor x\\rfloor`` from others. A point at which neither has a
    real value, as at the negative ones of ``x^{3/2}``, says nothing, unless there is an i.
    """
    from sympy import Expr, I
    from sympy.matrices import MatrixBase

    if isinstance(gold, MatrixBase) and isinstance(answer, MatrixBase):
        return gold.shape == answer.shape and all(map(_entries_agree, gold, answer))
    if not (isinstance(gold, Expr) and isinstance(answer, Expr) and _is_smooth(gold) and _is_smooth(answer)):
        return False
    is_real = not (gold.has(I) or answer.has(I))
    equal = 0
    for at in _places(gold, answer):
        one, other = gold.xreplace(at), answer.xreplace(at)
        found = _attempt(_same_constant, one, other)
        if is_real and not found and _is_imaginary(one) and _is_imaginary(other):
            continue
        if found is False:
            return False
        equal += bool(found)
    return equal >= FEWEST_PLACES


def _entries_agree(gold: Any, answer: Any) -> bool:
    found = _attempt(_same_constant, gold, answer)
    return bool(found or (found is None and _attempt(_agree, gold, answer)))


def _is_smooth(value: Any) -> bool:
    """Whether it is made of symbols and numbers by arithmetic, powers, logarithms and angles."""
    from sympy import Add, Mul, Number, NumberSymbol, Pow, Symbol, exp, log, preorder_traversal
    from sympy.core.numbers import ImaginaryUnit
    from sympy.functions.elementary.hyperbolic import HyperbolicFunction, InverseHyperbolicFunction
    from sympy.functions.elementary.trigonometric import (
        InverseTrigonometricFunction,
        TrigonometricFunction,
    )

    kinds = (
        *(Add, Mul, Number, NumberSymbol, Pow, Symbol, exp, log, ImaginaryUnit),
        *(HyperbolicFunction, InverseHyperbolicFunction),
        *(InverseTrigonometricFunction, TrigonometricFunction),
    )
    return all(isinstance(each, kinds) for each in preorder_traversal(value))


def _places(gold: Any, answer: Any) -> list[dict[Any, Any]]:
    """Values of the symbols, of both signs: small ones, and, if there are roots or inverse functions, ones
    around each number: there, those of squares such as ``\\sqrt{(x-900)^2}`` change.
    """
    from sympy import Rational, log, preorder_traversal
    from sympy.functions.elementary.hyperbolic import InverseHyperbolicFunction
    from sympy.functions.elementary.trigonometric import InverseTrigonometricFunction

    symbols = sorted(gold.free_symbols | answer.free_symbols, key=str)
    if not symbols:
        return []
    parts = [each for value in (gold, answer) for each in preorder_traversal(value)]
    inverse = (log, InverseHyperbolicFunction, InverseTrigonometricFunction)
    bent = any(isinstance(each, inverse) or (each.is_Pow and not each.exp.is_integer) for each in parts)
    numbers = {abs(each.evalf(9)) for each in parts if bent and each.is_number and each.is_real}
    near = sorted({Rational(int(each)) for each in numbers if 1 < each <= LARGEST_NUMBER})[-MOST_NUMBERS:]
    sizes = [Rational(n, 10) for n in (3, 7, 13, 29, 67)]
    sizes += [each * Rational(n, 100) for each in near for n in (93, 107)]
    values = [sign * size for size in [*sizes, sizes[-1] * 17 / 10] for sign in (1, -1)]
    draw = random.Random(0)
    rest = [[draw.choice(values) for _ in symbols[1:]] for _ in values]
    return [dict(zip(symbols, [first, *more], strict=True)) for first, more in zip(values, rest, strict=True)]


def _is_imaginary(value: Any) -> bool:
    """Whether a constant has an imaginary part."""
    found = value.evalf(5).as_real_imag()[1]
    return bool(found.is_Float and _is_known(found))


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
