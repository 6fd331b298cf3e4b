"""The cost of grading an answer: honest integers, other forms, and boxes made to hang a grader.

The baseline calls math-verify in this process, as most trainers do, with its own time limits. For hostile
boxes it runs in a child process that is killed after ``CAP`` seconds.

    python benchmarks/math_grading.py [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable

from mappa_env.grading.math import grade_answer

CAP = 30.0
HONEST = {
    "integer": ("23", "23"),
    "fraction": (r"\frac{1}{2}", "0.5"),
    "point": ("(2, 1)", "(1, 2)"),
    "root": (r"\sqrt{8}", r"2\sqrt{2}"),
    "polynomial": ("(x+1)^2", "x^2+2x+1"),
}
GOLD = "x+1"
"""Against a number, a hostile box is refused at once; against an expression, it must be evaluated."""
HOSTILE = ["10^{10^{10}}", "999999999!", "9^{9^9}", r"\prod_{i=1}^{10^9} i"]


def plain(box: str, gold: str) -> bool:
    """Grade with plain math-verify."""
    from math_verify import parse, verify

    return bool(verify(parse(f"${gold}$"), parse(rf"$\boxed{{{box}}}$")))


def capped(box: str, gold: str) -> None:
    child = multiprocessing.get_context("spawn").Process(target=plain, args=(box, gold))
    child.start()
    child.join(CAP)
    if child.is_alive():
        child.kill()


def median_ms(act: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats and hostile boxes")
    parser.add_argument("--json", metavar="PATH", help="write the figures to a file")
    args = parser.parse_args()
    repeats = 5 if args.quick else 25
    grade_answer(r"\boxed{1+x}", GOLD)  # starts the workers
    plain("46/2", "23")
    figures = {}
    print(f"{'answer':24} {'ours, ms':>10} {'in process, ms':>16}   ours says")
    for name, (box, gold) in HONEST.items():
        ours = median_ms(lambda b=box, g=gold: grade_answer(rf"\boxed{{{b}}}", g), repeats)
        base = median_ms(lambda b=box, g=gold: plain(b, g), repeats)
        figures[name] = {"ours_ms": ours, "baseline_ms": base, "repeats": repeats}
        grade = grade_answer(rf"\boxed{{{box}}}", gold)
        print(f"{name:24} {ours:10.2f} {base:16.2f}   {grade.status}, correct={grade.correct}")
    for box in HOSTILE[: 2 if args.quick else None]:
        ours = median_ms(lambda b=box: grade_answer(rf"\boxed{{{b}}}", GOLD), 1 if args.quick else 3)
        base = median_ms(lambda b=box: capped(b, GOLD), 1)
        grade = grade_answer(rf"\boxed{{{box}}}", GOLD)
        figures[box] = {"ours_ms": ours, "baseline_ms": base, "repeats": 1 if args.quick else 3}
        print(f"{box:24} {ours:10.0f} {base:16.0f}   {grade.status}, correct={grade.correct}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=2)


if __name__ == "__main__":
    main()
