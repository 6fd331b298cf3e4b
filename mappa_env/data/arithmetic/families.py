"""Problem families: each function draws one problem whose integer answer is known by construction.

``expr`` is a Python expression with the answer as its value. It contains only numbers of the problem, so that
a very small model can write it by copying. ``misconception`` is a typical wrong formula, which the faulty
scripted teams use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple


class Problem(NamedTuple):
    """A problem, its short text, its answer, and two formulas; see the module."""

    prompt: str
    compact: str
    answer: int
    expr: str
    misconception: str


Family = Callable[[Random, int], Problem]
"""``family(rng, level)`` with ``level`` 1 (easy) to 3 (hard)."""


def arithmetic(rng: Random, level: int) -> Problem:
    """Evaluate an expression of sums, products and brackets."""
    a, b, c, d = rng.randint(3, 40), rng.randint(3, 40), rng.randint(2, 60), rng.randint(2, 60)
    if level == 1:
        answer, expr, wrong = a * b + c, f"{a}*{b}+{c}", f"{a}*({b}+{c})"
    elif level == 2:
        answer, expr, wrong = a * (b + c) - d, f"{a}*({b}+{c})-{d}", f"{a}*{b}+{c}-{d}"
    else:
        answer, expr, wrong = a * b - c * d, f"{a}*{b}-{c}*{d}", f"({a}*{b}-{c})*{d}"
    return Problem(f"Compute the value of ${_tex(expr)}$.", f"value of {expr}?", answer, expr, wrong)


def modular(rng: Random, level: int) -> Problem:
    """The remainder of a number, product or power."""
    a, b, n, m = rng.randint(11, 99), rng.randint(11, 99), rng.randint(101, 999), rng.randint(7, 60)
    if level == 1:
        top, answer, wrong = f"{n}", n % m, f"{n}//{m}"
    elif level == 2:
        top, answer, wrong = f"{a}*{b}", a * b % m, f"{a}*{b}//{m}"
    else:
        a, b = rng.randint(2, 30), rng.randint(5, 12)
        top, answer, wrong = f"{a}**{b}", a**b % m, f"{a}*{b}%{m}"
    shown = top.replace("**", "^")
    return Problem(
        f"What is the remainder when ${_tex(top)}$ is divided by {m}?",
        f"{shown} mod {m}?",
        answer,
        f"{top}%{m}",
        wrong,
    )


def linear(rng: Random, level: int) -> Problem:
    """Solve a linear equation."""
    a, b, x = rng.randint(3, 30), rng.randint(2, 99), rng.randint(2, 30)
    if level == 3:
        c = rng.randint(2, a - 1)
        x = rng.choice((-1, 1)) * x
        right = (a - c) * x + b
        shown = f"{a}x+{b}={c}x{_signed(right)}"
        expr = f"({right}-{b})//({a}-{c})"
        wrong = f"({right}-{b})//({a}+{c})"
    elif level == 2:
        right = a * x - b
        shown, expr, wrong = f"{a}x-{b}={right}", f"({right}+{b})//{a}", f"({right}-{b})//{a}"
    else:
        right = a * x + b
        shown, expr, wrong = f"{a}x+{b}={right}", f"({right}-{b})//{a}", f"({right}+{b})//{a}"
    return Problem(f"Solve the equation ${shown}$ for $x$.", f"solve {shown}", x, expr, wrong)


def quadratic(rng: Random, level: int) -> Problem:
    """One integer root of a quadratic equation."""
    low, high = sorted(rng.sample(range(1, 51), 2))
    if level == 3:
        low, high = -low, high + 1  # a sum of at least 2, so that no "1x" is shown
        total, product = low + high, low * high
        shown, inner = f"x^2-{total}x-{-product}=0", f"isqrt({total}**2+4*{-product})"
    else:
        total, product = low + high, low * high
        shown, inner = f"x^2-{total}x+{product}=0", f"isqrt({total}**2-4*{product})"
    large, small = f"({total}+{inner})//2", f"({total}-{inner})//2"
    if level == 2:
        word, answer, expr, wrong = "smaller", low, small, large
    else:
        word, answer, expr, wrong = "larger", high, large, small
    return Problem(
        f"The equation ${shown}$ has two integer roots. Find the {word} one.",
        f"{word} root of {shown}",
        answer,
        expr,
        wrong,
    )


def divisor(rng: Random, level: int) -> Problem:
    """The greatest common divisor or least common multiple."""
    shared = rng.randint(2, 12)
    a, b = (shared * k for k in rng.sample(range(2, 30), 2))
    if level == 1:
        name, short, args = "greatest common divisor", "gcd", f"{a},{b}"
        answer, wrong = math.gcd(a, b), f"lcm({args})"
    elif level == 2:
        name, short, args = "least common multiple", "lcm", f"{a},{b}"
        answer, wrong = math.lcm(a, b), f"{a}*{b}"
    else:
        c = shared * rng.randint(2, 30)
        name, short, args = "greatest common divisor", "gcd", f"{a},{b},{c}"
        answer, wrong = math.gcd(a, b, c), f"gcd({a},{b})"
    listed = " and ".join(args.split(","))
    return Problem(
        f"Find the {name} of {listed}.", f"{short} of {listed}?", answer, f"{short}({args})", wrong
    )


def counting(rng: Random, level: int) -> Problem:
    """Count multiples, or choices of a committee."""
    if level == 3:
        boys, girls, b, g = rng.randint(4, 20), rng.randint(4, 20), rng.randint(2, 3), rng.randint(2, 3)
        return Problem(
            f"A committee needs {b} of {boys} teachers and {g} of {girls} students. "
            "In how many ways can it be chosen?",
            f"choose {b} of {boys} and {g} of {girls}?",
            math.comb(boys, b) * math.comb(girls, g),
            f"comb({boys},{b})*comb({girls},{g})",
            f"comb({boys},{b})+comb({girls},{g})",
        )
    k, start, stop = rng.randint(3, 30), rng.randint(20, 199), rng.randint(200, 999)
    if level == 2:
        return Problem(
            f"How many multiples of {k} lie between {start} and {stop}, both ends included?",
            f"multiples of {k} from {start} to {stop}?",
            stop // k - (start - 1) // k,
            f"{stop}//{k}-({start}-1)//{k}",
            f"({stop}-{start})//{k}",
        )
    return Problem(
        f"How many positive multiples of {k} are at most {stop}?",
        f"multiples of {k} up to {stop}?",
        stop // k,
        f"{stop}//{k}",
        f"{stop}//{k}+1",
    )


def sequence(rng: Random, level: int) -> Problem:
    """A term or sum of an arithmetic sequence, or a term of a geometric one."""
    first, step, n = rng.randint(2, 60), rng.randint(2, 30), rng.randint(6, 40)
    if level == 3:
        first, ratio, n = rng.randint(2, 99), rng.randint(2, 4), rng.randint(4, 7)
        return Problem(
            f"A geometric sequence starts with {first} and has the common ratio {ratio}. "
            f"Find term number {n}.",
            f"term {n} from {first} ratio {ratio}?",
            first * ratio ** (n - 1),
            f"{first}*{ratio}**({n}-1)",
            f"{first}*{ratio}**{n}",
        )
    start = f"An arithmetic sequence starts with {first} and each term is {step} more than the previous one."
    if level == 2:
        return Problem(
            f"{start} Find the sum of its first {n} terms.",
            f"sum of {n} terms from {first} step {step}?",
            sum(range(first, first + n * step, step)),
            f"{n}*(2*{first}+({n}-1)*{step})//2",
            f"{n}*({first}+({n}-1)*{step})//2",
        )
    return Problem(
        f"{start} Find term number {n}.",
        f"term {n} from {first} step {step}?",
        first + (n - 1) * step,
        f"{first}+({n}-1)*{step}",
        f"{first}+{n}*{step}",
    )


def number_theory(rng: Random, level: int) -> Problem:
    """The digit sum or the number of divisors."""
    if level == 1:
        n = rng.randint(100, 9999)
        return Problem(
            f"Find the sum of the decimal digits of {n}.",
            f"digit sum of {n}?",
            sum(int(digit) for digit in str(n)),
            "+".join(str(n)),
            "*".join(str(n)),
        )
    primes = sorted(rng.sample((2, 3, 5, 7, 11, 13, 17, 19), level))
    powers = [rng.randint(1, 9 if level == 2 else 4) for _ in primes]
    shown = "*".join(f"{p}^{e}" for p, e in zip(primes, powers, strict=True))
    return Problem(
        f"How many positive divisors does ${_tex(shown)}$ have?",
        f"divisors of {shown}?",
        math.prod(e + 1 for e in powers),
        "*".join(f"({e}+1)" for e in powers),
        "*".join(str(e) for e in powers),
    )


def word(rng: Random, level: int) -> Problem:
    """A word problem about boxes of things."""
    name, thing = rng.choice(("Ada", "Ben", "Cleo", "Dan")), rng.choice(("pens", "shells", "stamps", "nuts"))
    boxes, each, more, lost = rng.randint(8, 40), rng.randint(8, 40), rng.randint(3, 30), rng.randint(2, 30)
    have = f"{name} has {boxes} boxes with {each} {thing} each"
    if level == 1:
        lost = rng.randint(2, boxes * each - 1)
        return Problem(
            f"{have} and loses {lost} {thing}. How many {thing} are left?",
            f"{boxes} boxes of {each}, {lost} lost?",
            boxes * each - lost,
            f"{boxes}*{each}-{lost}",
            f"{boxes}+{each}-{lost}",
        )
    if level == 2:
        return Problem(
            f"{have} and {more} bags with {lost} {thing} each. How many {thing} are there in all?",
            f"{boxes} boxes of {each} and {more} bags of {lost}?",
            boxes * each + more * lost,
            f"{boxes}*{each}+{more}*{lost}",
            f"({boxes}+{more})*({each}+{lost})",
        )
    friends = rng.randint(2, 9)
    lost = boxes * each % friends + friends * rng.randint(1, 5)
    return Problem(
        f"{have}, loses {lost} {thing} and shares the rest equally among {friends} friends. "
        f"How many {thing} does each friend get?",
        f"{boxes} boxes of {each}, {lost} lost, shared by {friends}?",
        (boxes * each - lost) // friends,
        f"({boxes}*{each}-{lost})//{friends}",
        f"{boxes}*{each}-{lost}//{friends}",
    )


def _tex(expr: str) -> str:
    return expr.replace("**", "^").replace("*", r" \cdot ")


def _signed(value: int) -> str:
    return f"+{value}" if value >= 0 else str(value)


FAMILIES: Mapping[str, Family] = {
    family.__name__: family
    for family in (
        arithmetic,
        modular,
        linear,
        quadratic,
        divisor,
        counting,
        sequence,
        number_theory,
        word,
    )
}
