"""How far graders agree with the test suites of other projects: right answers rejected, wrong ones accepted.

    python benchmarks/math_agreement.py --suites FOLDER [--show] [--json PATH] [--table PATH] [--quick]

FOLDER has a git clone of each project, under any name: huggingface/Math-Verify, huggingface/trl,
huggingface/open-r1, NovaSky-AI/SkyRL, PrimeIntellect-ai/verifiers, hendrycks/math, rllm-org/rllm and
volcengine/verl. Their tests are read as data, as of the commits in ``math_suites.py``, and never run; it
finds gold, answer and expectation. Each answer goes into a box. Baselines in the same run: math-verify
alone, and the normalise-and-compare of hendrycks/math.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from math_suites import SUITES, Case, Clone, Source, suites_in

from mappa_env.grading.math import grade_answer
from mappa_env.parsing import last_boxed

Grader = Callable[[str, str], bool]
"""(content of the box, gold) to right or wrong."""


def ours(box: str, gold: str) -> bool:
    return grade_answer(rf"\boxed{{{box}}}", gold).correct


def math_verify(box: str, gold: str) -> bool:
    from math_verify import parse, verify

    return bool(verify(parse(f"${gold}$"), parse(rf"$\boxed{{{box}}}$")))


def hendrycks(folder: Path) -> Grader:
    """The normalise-and-compare of the clone."""
    module = types.ModuleType("math_equivalence")
    source = Clone(folder, SUITES["Hendrycks MATH"]).text("modeling/math_equivalence.py")
    exec(compile(source, "math_equivalence.py", "exec"), module.__dict__)  # noqa: S102 - of a known commit
    return lambda box, gold: bool(module.is_equiv(box, gold))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--suites", metavar="FOLDER", type=Path, help="the folder of checkouts")
    parser.add_argument("--show", action="store_true", help="print the pairs that we judge otherwise")
    parser.add_argument("--table", metavar="PATH", type=Path, help="write a table in Markdown to a file")
    parser.add_argument("--quick", action="store_true", help="without a folder, do nothing")
    parser.add_argument("--json", metavar="PATH", help="write the figures to a file")
    args = parser.parse_args()
    if args.suites is None:
        print("Nothing to compare with: name a folder of checkouts with --suites.")
        sys.exit(0 if args.quick else 2)
    logging.disable(logging.CRITICAL)
    graders: dict[str, Grader] = {"mappa": ours, "math-verify": math_verify}
    graders["hendrycks"] = hendrycks(args.suites)
    figures: dict[str, dict[str, int]] = {}
    print(f"{'suite':24}{'pairs':>6}   " + "".join(f"{name:>28}" for name in graders))
    print(" " * 33 + "".join(f"{'false rejects, accepts':>28}" for _ in graders))
    total: Counter[str] = Counter()
    for suite in suites_in(args.suites):
        counts = judge(suite.cases, graders, show=args.show)
        figures[suite.name] = dict(counts) | {"left_out": len(suite.left_out)}
        total.update(figures[suite.name])
        print(line(suite.name, counts, graders))
    print(line("all", total, graders))
    figures["all"] = dict(total)
    print(
        f"{total['left_out']} tests are left out: their answer must be found in prose, or they set options."
    )
    if args.table:
        args.table.write_text(table(figures, graders), encoding="utf-8")
    if args.json:
        Path(args.json).write_text(json.dumps(figures, indent=2), encoding="utf-8")


def judge(cases: Iterable[Case], graders: dict[str, Grader], *, show: bool) -> Counter[str]:
    counts: Counter[str] = Counter()
    for case in cases:
        counts["pairs"] += 1
        for name, grader in graders.items():
            box = last_boxed(rf"\boxed{{{case.box}}}")
            correct = box is not None and any(grader(box, gold) for gold in case.golds)
            if correct != case.expected:
                counts[f"{name} {'false accepts' if correct else 'false rejects'}"] += 1
                if show and name == "mappa":
                    print(f"  {'ACCEPTED' if correct else 'rejected'}  {case.box!r}  for  {case.golds!r}")
    return counts


def table(figures: Mapping[str, Mapping[str, int]], graders: Iterable[str]) -> str:
    """Markdown: a row for each suite, with the commit that was read."""
    names = [f"{name}: {kind}" for name in graders for kind in ("false rejects", "false accepts")]
    rows = [["suite", "commit", "pairs", "left out", *names], ["---"] * (4 + len(names))]
    for suite, counts in figures.items():
        source = SUITES.get(suite)
        commit = f"[{source.repository}@{source.commit[:7]}]({_address(source)})" if source else ""
        cells = [counts.get(name.replace(": ", " "), 0) for name in names]
        rows.append([suite, commit, *(str(n) for n in (counts["pairs"], counts["left_out"], *cells))])
    return "".join(
        f"| {' | '.join(row)} |\n" if row[0] != "---" else "|" + "---|" * len(row) + "\n" for row in rows
    )


def _address(source: Source) -> str:
    return f"https://github.com/{source.repository}/tree/{source.commit}"


def line(name: str, counts: Counter[str], graders: dict[str, Grader]) -> str:
    cells = (
        f"{counts[f'{each} false rejects']} ({_rate(counts, f'{each} false rejects')}), "
        f"{counts[f'{each} false accepts']} ({_rate(counts, f'{each} false accepts')})"
        for each in graders
    )
    return f"{name:24}{counts['pairs']:>6}   " + "".join(f"{cell:>28}" for cell in cells)


def _rate(counts: Counter[str], key: str) -> str:
    return f"{counts[key] / counts['pairs']:.1%}" if counts["pairs"] else "-"


if __name__ == "__main__":
    main()
