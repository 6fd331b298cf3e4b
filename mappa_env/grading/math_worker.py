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
    from sympy import Expr, Float, Rational

    latex = math_verify.LatexExtractionConfig(try_extract_without_anchor=False, boxed_match_priority=0)

    def parse(text: str) -> list[Any]:
        parsed: list[Any] = math_verify.parse(
            rf"\boxed{{{text}}}", [latex], fallback_mode="no_fallback", parsing_timeout=None
        )
        return parsed

    parse_gold = functools.lru_cache(maxsize=256)(parse)

    def exact(value: Any) -> Any:
        """The value with decimals as fractions; None if it is not a constant."""
        if not isinstance(value, Expr) or value.free_symbols:
            return None
        value = value.doit()
        value = value.xreplace({each: Rational(str(each)) for each in value.atoms(Float)})
        return value if value.is_number and value.is_finite else None

    def same_constant(gold: Any, answer: Any) -> bool | None:
        """Whether two constants agree in 40 digits; None if it cannot be said."""
        first, second = exact(gold), exact(answer)
        if first is None or second is None:
            return None
        values = first.evalf(60), second.evalf(60)
        size = abs(values[0]) + abs(values[1])
        if not size.is_Float or size < 1e-200:
            return None
        return bool(abs(values[0] - values[1]) < Float(10) ** -40 * size)

    def equal(gold: str, answer: str) -> bool | None:
        golds, answers = parse_gold(gold), parse(answer)
        if not answers:
            return None
        if not golds:
            return False
        try:
            found = same_constant(golds[0], answers[0])
        except (ArithmeticError, TypeError, ValueError, AttributeError, NotImplementedError):
            found = None
        if found is not None:
            return found
        return bool(
            math_verify.verify(
                golds, answers, float_rounding=12, allow_set_relation_comp=True, timeout_seconds=None
            )
        )

    return equal, lambda gold: bool(parse_gold(gold))


if __name__ == "__main__":
    main()
