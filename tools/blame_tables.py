"""The tables of blame in docs/results/coach.md, from the JSON files of ``mappa-env coach bench``.

    mappa-env coach bench DSBench-v0 --tasks eval --episodes 8 --seed N --controls 4 --json dsbench.json
    ...
    python tools/blame_tables.py --with dsbench.json sprint.json mathchat.json
                                  --without dsbench_off.json sprint_off.json mathchat_off.json

``--with`` and ``--without``: with the hidden truth and without it, each DSBench, DSBenchSprint and MathChat.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

NAMES = ("DSBench", "Sprint", "MathChat")
ROWS = (
    (0, "file and code", "DSBench, file and code", ("agent", "turn")),
    (0, "value", "DSBench, wrong values", ("agent", "turn")),
    (1, "all", "Sprint, all", ("agent",)),
    (2, "all", "MathChat, all", ("agent", "turn")),
    (2, "file and code", "MathChat, code", ("agent", "turn")),
)
"""Bench, kind of faults, its title and what is named."""
METHODS = ("coach", "tracing", "first", "last", "first failing", "last failing", "random")
CONTROLS = {
    "idle": "idle",
    "stop": "stop (its program fails on the input)",
    "report": "report",
    "workaround": "workaround",
    "false claim": "false claim of being blocked",
}
Bench = Mapping[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--with", dest="known", nargs=3, type=Path, required=True, metavar="JSON")
    parser.add_argument("--without", nargs=3, type=Path, metavar="JSON")
    args = parser.parse_args()
    known = read(args.known, labels=True)
    named(known)
    print()
    table(("", *NAMES), alone(known))
    print()
    coasting(known)
    if args.without:
        print()
        table(("", *NAMES), without_truth(read(args.without, labels=False)))


def read(paths: Sequence[Path], labels: bool) -> list[Bench]:
    """Three benches. Raises SystemExit if one is not that of its place, or not of the same seed."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    for path, bench, name in zip(
        paths, found, ("DSBench-v0", "DSBenchSprint-v0", "MathChat-v0"), strict=True
    ):
        if not str(bench["env"]).endswith(name) or bench["interrupted"]:
            raise SystemExit(f"{path}: not a finished bench of {name}")
        if (bench["coach"] == "rubric") != labels:
            raise SystemExit(f"{path}: its coach is {bench['coach']}")
        if bench["seed"] != found[0]["seed"]:
            raise SystemExit(f"{path}: its seed is {bench['seed']}, that of {paths[0]} {found[0]['seed']}")
    return found


def percent(rate: Mapping[str, float], digits: int = 1) -> str:
    """A rate with its interval: ``99.2 % [98, 100]``."""
    value = f"{100 * rate['value']:.{digits}f}".removesuffix(".0")
    return f"{value} % [{100 * rate['low']:.0f}, {100 * rate['high']:.0f}]"


def number(mean: Mapping[str, float]) -> str:
    return f"{mean['value']:.2f} [{mean['low']:.2f}, {mean['high']:.2f}]"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print("|", " | ".join(head).strip(), "|")
    print("|" + "---|" * len(head))
    for row in rows:
        print("|", " | ".join(row), "|")


def named(benches: Sequence[Bench]) -> None:
    """Whom each method names."""
    rows = []
    for at, kind, title, kinds_named in ROWS:
        for n, what in enumerate(kinds_named):
            rates = [benches[at]["accuracy"][kind][method][what] for method in METHODS]
            shown = [
                percent(rate) if m < 2 else f"{100 * rate['value']:.0f} %" for m, rate in enumerate(rates)
            ]
            rows.append([*([title, str(rates[0]["n"])] if not n else ["", ""]), what, *shown])
    head = ["", "cases", "named", "rubric", *METHODS[1:-1], "chance"]
    table(head, rows)


def alone(benches: Sequence[Bench]) -> Iterable[list[str]]:
    """What the scores say by themselves."""
    scores = [bench["scores"] for bench in benches]
    yield ["faults tried, discarded", *(f"{b['tried']}, {b['tried'] - b['counted']}" for b in benches)]
    yield [
        "culprit's action strictly the lowest of the team",
        *(percent(s["strictly_lowest"]) for s in scores),
    ]
    yield ["of these, wrong values", *(percent(b["lowest"]["value"]) for b in benches)]
    yield [
        "lowest other agent minus the culprit's action: median",
        *(f"{s['margin_median']:.1f}" for s in scores),
    ]
    yield ["the same: mean", *(number(s["margin"]) for s in scores)]
    yield ["clean minus faulty score of the culprit's action", *(number(s["gap"]) for s in scores)]
    yield [
        "part of its clean score that a later agent keeps, mean",
        *(number(s["victims_ratio"]) for s in scores),
    ]
    yield ["it keeps 60 % or more", *(percent(s["victims_kept"]) for s in scores)]
    yield ["clean episodes with a culprit", *(percent(s["false_alarm"], 0) for s in scores)]
    calibration = [b["calibration"] for b in benches]
    yield ["mean score of an episode: AUC of success", *(f"{c['auc']:.3f}" for c in calibration)]
    yield ["Spearman with the outcome's score", *(f"{c['spearman']:.2f}" for c in calibration)]
    yield ["expected calibration error", *(f"{c['ece']:.2f}" for c in calibration)]


def coasting(benches: Sequence[Bench]) -> None:
    """What an agent earns that a fault of another blocks: least, mean and most; and the least part kept."""
    rows = []
    for key, title in CONTROLS.items():
        cells = []
        for bench in benches:
            control = bench["controls"][key]
            cells.append(", ".join(f"{control[each]:.1f}" for each in ("least", "mean", "most")))
            cells.append("" if key == "false claim" else f"{100 * control['kept']:.0f} %")
        rows.append([title, *cells])
    table(["", *(cell for name in NAMES for cell in (name, "kept"))], rows)


def without_truth(benches: Sequence[Bench]) -> Iterable[list[str]]:
    scores = [bench["scores"] for bench in benches]
    for kind, title in (("file and code", "file and code"), ("value", "wrong values")):
        rates = [bench["accuracy"][kind]["coach"]["agent"] for bench in benches]
        yield [f"agent named, {title}", *map(percent, rates)]
    yield ["culprit's action strictly the lowest", *(percent(s["strictly_lowest"]) for s in scores)]
    for kind, title in (("file and code", "file and code"), ("value", "wrong values")):
        yield [f"of these, {title}", *(percent(b["lowest"][kind]) for b in benches)]
    yield [
        "lowest other agent minus the culprit's action: median",
        *(f"{s['margin_median']:.1f}" for s in scores),
    ]
    yield ["later agents keep 60 % or more", *(percent(s["victims_kept"]) for s in scores)]
    yield ["clean episodes with a culprit", *(percent(s["false_alarm"], 0) for s in scores)]
    yield ["mean score of an episode: AUC of success", *(f"{b['calibration']['auc']:.3f}" for b in benches)]


if __name__ == "__main__":
    main()
