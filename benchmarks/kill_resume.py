"""Does a run killed with SIGKILL and resumed end with the same files as an uninterrupted one?

A tiny synchronous run (6 steps of 8 episodes, checkpoints every 2) on the CPU runs once without interruption,
then is killed and resumed many times. The moments are drawn in turn from four phases (rollout, learner step,
weight sync, writing a checkpoint), each uniform over the phase's calls and their durations in the
uninterrupted run; the process (a fork of this one, which made the imports) sends itself SIGKILL. Weights and
metrics, except times, are compared with those of the uninterrupted run, byte by byte. The same --seed draws
the same moments. With --signals the process sends itself SIGTERM and SIGINT in turn: then its last complete
step must be saved, and it must end within 30 s. With --real it is the recipe smollm2_lora, small, with the
engine hf, which repeats itself to the bit: SmolLM2-135M-Instruct, an adapter for each agent (``make llm``).

    python benchmarks/kill_resume.py [--quick] [--json PATH] [--kills N] [--seed N] [--signals] [--real]
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import deepspeed  # noqa: F401  (once, before the forks)
import fakes
from rich.console import Console
from rich.table import Table

import mappa_rl.training.trainer  # noqa: F401  (the same)

LIMIT_S = 30.0
"""Schedulers often kill so long after SIGTERM."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one kill, while a checkpoint is written")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures here")
    parser.add_argument("--kills", type=int, default=20, metavar="N", help="number of kills (default: 20)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the moments (default: 0)")
    parser.add_argument("--signals", action="store_true", help="SIGTERM and SIGINT instead of SIGKILL")
    parser.add_argument("--real", action="store_true", help="a real model: 3 minutes a kill, on two cores")
    args = parser.parse_args(argv)
    killing = fakes.load("killing")
    of = killing.SMOLLM2 if args.real else killing.DEMO
    phases = [killing.PHASES[-1]] if args.quick else [killing.PHASES[i % 4] for i in range(args.kills)]
    rng, rows = random.Random(args.seed), []
    with tempfile.TemporaryDirectory(prefix="mappa-kill-") as folder:
        whole, out = Path(folder) / "whole", Path(folder) / "killed"
        times = killing.run_whole(whole, runner=killing.forked, of=of)
        expected, summary = killing.outcome(whole), killing.result(whole)
        start = [f"warmstart.path={whole / 'warmstart'}"]
        for phase in phases:
            moment = killing.draw(times, phase, rng)
            saved, ended_s = True, 0.0
            if args.signals:
                number = (signal.SIGTERM, signal.SIGINT)[len(rows) % 2]
                ended_s = killing.run_stopped(out, moment, number, start, killing.forked, of)
                logged, newest = killing.saved_steps(out)
                saved = newest >= logged and ended_s < LIMIT_S
            else:
                killing.run_killed(out, moment, start, killing.forked, of)
            if code := killing.forked(out, {"resume": True}):
                sys.exit(f"the resumed run ended with {code}")
            found = killing.outcome(out)
            same = {
                "metrics": found[0] == expected[0],
                "weights": found[1] == expected[1],
                "summary": killing.result(out) == summary,
                "saved": saved,
            }
            call_s = times[phase][moment.call]
            rows.append({**moment._asdict(), "call_s": call_s, "ended_s": ended_s, **same})
            print(f"{len(rows)}/{len(phases)} {moment}: {same}", file=sys.stderr, flush=True)
            shutil.rmtree(out)
    how = "stopped with SIGTERM and SIGINT" if args.signals else "killed with SIGKILL"
    table = Table(title=f"Runs {how} and resumed, against an uninterrupted one")
    for column in ("killed in", "runs", "metrics equal", "weights equal", "finished"):
        table.add_column(column, justify="left" if column == "killed in" else "right")
    for phase in dict.fromkeys(phases):
        of = [row for row in rows if row["phase"] == phase]
        counts = [str(sum(row[name] for row in of)) for name in ("metrics", "weights", "summary")]
        table.add_row(phase, str(len(of)), *counts)
    Console(width=100).print(table)
    equal = sum(row["metrics"] and row["weights"] and row["summary"] and row["saved"] for row in rows)
    print(f"{equal} of {len(rows)} equal")
    if args.signals:
        print(f"from the signal to the end: at most {max(row['ended_s'] for row in rows):.1f} s")
    if args.json:
        document = {"seed": args.seed, "kills": len(rows), "equal": equal, "rows": rows}
        args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if equal == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
