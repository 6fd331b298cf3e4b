"""Mutations of numbers: in a plan, in code, in a reported result, in a boxed answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np

from mappa_env.benchmarking.coach.mutations import FENCE, PRINTED, Mutate, Mutation
from mappa_env.grading.expression import safe_value
from mappa_env.scripted.mutate import wrong_digit, wrong_operator

_LABELLED = re.compile(r"^([ \t]*(?:plan|result):[ \t]*)(.+)$", re.MULTILINE)
_BOXED = re.compile(r"(\\boxed\{)([^{}]+)(\})")


def _number(change: Callable[[str, np.random.Generator], str | None]) -> Mutate:
    """Change the planned or printed expression, the reported result, or the box."""

    def mutate(text: str, rng: np.random.Generator) -> str | None:
        found = FENCE.search(text)
        if found is not None:
            lines = found[1].split("\n")
            printed = PRINTED.match(lines[-1])
            if printed is None or safe_value(printed[2]) is None:
                return None
            new = change(printed[2], rng)
            code = "\n".join([*lines[:-1], f"print({new})"])
            return None if new is None else text[: found.start(1)] + code + text[found.end(1) :]
        spans = [*_LABELLED.finditer(text), *_BOXED.finditer(text)]
        if not spans:
            return None
        at = max(spans, key=lambda match: match.start())
        new = change(at[2], rng)
        return None if new is None else text[: at.start(2)] + new + text[at.end(2) :]

    return mutate


def _operator(expr: str, rng: np.random.Generator) -> str | None:
    return wrong_operator(expr, {safe_value(expr)})


def _digit(expr: str, rng: np.random.Generator) -> str | None:
    return wrong_digit(expr, {safe_value(expr)}, rng) if safe_value(expr) is not None else None


def _off_by_one(expr: str, rng: np.random.Generator) -> str | None:
    return f"{expr} + 1" if safe_value(expr) is not None and not expr.isdigit() else _next(expr)


def _next(expr: str) -> str | None:
    return str(int(expr) + 1) if expr.isdigit() else None


def _ignores_upstream(expr: str, rng: np.random.Generator) -> str | None:
    """Replace the received or computed number by a random one."""
    value, own = safe_value(expr), int(rng.integers(10, 1000))
    return None if value is None else str(own if own != value else own + 1)


def _silent(text: str, rng: np.random.Generator) -> str | None:
    """Remove the line with the plan, the result or the box."""
    lines = text.split("\n")
    kept = [line for line in lines if not _LABELLED.match(line) and not _BOXED.search(line)]
    return ("\n".join(kept) or "I am done.") if len(kept) < len(lines) and "```" not in text else None


ANSWERS: Mapping[str, Mutation] = {
    "other_operator": Mutation("value", _number(_operator)),
    "other_digit": Mutation("value", _number(_digit)),
    "off_by_one": Mutation("value", _number(_off_by_one)),
    "ignores_upstream": Mutation("value", _number(_ignores_upstream)),
    "silent": Mutation("text", _silent),
}
