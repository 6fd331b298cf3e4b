"""Run every part of ``gpu_part.py`` in a process of its own, and write one table in Markdown.

A part that needs a package that is not installed, or a GPU where there is none, is skipped and says so. A
part that fails, finds a wrong number or exceeds its time is reported, and the others go on. Standard library
only, so that it runs wherever Python does. See ``gpu_all.sh``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PARTS = {
    "machine": 60,
    "gradients": 60,
    "attention": 60,
    "ipc, two processes": 60,
    "learner": 120,
    "head": 60,
    "run, hf": 90,
    "vllm": 240,
    "run, vllm, bf16 and sleep": 240,
    "run, vllm, adapters": 180,
    "learner, layers recomputed": 120,
    "generation, hf": 90,
    "rollouts, ours": 60,
    "rollouts, TRL": 90,
    "run, offload": 150,
    "run, vllm": 180,
    "vllm, eager": 150,
}
"""The parts, the most telling first, and the seconds that each may take: a fresh machine reads slowly."""
TOTAL_S = 570.0
REHEARSAL = 5
"""Times these limits: a rehearsal shares a slow machine, and tests the parts, not their speed."""
SCRIPT = Path(__file__).with_name("gpu_part.py")


@dataclass(frozen=True)
class Row:
    """One figure. ``check``: what it was compared with, and whether it held; empty: it is only measured."""

    part: str
    figure: str
    value: str
    check: str = ""


@dataclass
class Outcome:
    """How a part ended. ``kind``: ok, skipped, wrong, failed or late."""

    part: str
    kind: str
    seconds: float
    rows: list[Row]
    why: str = ""


def run_part(part: str, arguments: list[str], limit_s: float, logs: Path | None = None) -> Outcome:
    """The part in a process of its own; all that it started ends with it. ``logs`` keeps what it wrote."""
    with tempfile.TemporaryDirectory(prefix="mappa-gpu-") as scratch:
        out, log = Path(scratch) / "part.json", Path(scratch) / "part.log"
        command = [sys.executable, str(SCRIPT), part, "--json", str(out), "--scratch", scratch, *arguments]
        began = time.monotonic()
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                pass
            finally:
                ended = process.poll()
                with_children(process.pid, signal.SIGKILL)
                process.wait()
                if logs is not None:
                    shutil.copy(log, logs / f"{re.sub(r'[^a-z0-9]+', '-', part.lower())}.log")
        seconds = time.monotonic() - began
        if ended is None:
            return Outcome(part, "late", seconds, [], f"not done after {limit_s:.0f} s")
        if not out.is_file():
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            return Outcome(part, "failed", seconds, [], lines[-1][:300] if lines else f"exit status {ended}")
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    rows = [Row(part, *row) for row in found["rows"]]
    return Outcome(part, found["kind"], seconds, rows, found["why"])


def with_children(leader: int, number: int) -> None:
    """Send a signal to the process group of ``leader``, if any of it is left."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        return


def table(outcomes: list[Outcome], title: str) -> str:
    """Markdown: the figures, then a line for each part that gave none."""
    lines = [f"# {title}", "", "| part | figure | value | check |", "|---|---|---:|---|"]
    lines += [
        f"| {row.part} | {row.figure} | {row.value} | {row.check} |"
        for outcome in outcomes
        for row in outcome.rows
    ]
    rest = [outcome for outcome in outcomes if outcome.kind != "ok"]
    if rest:
        lines += ["", "| not measured | how it ended | why |", "|---|---|---|"]
        lines += [f"| {each.part} | {each.kind} | {each.why.replace('|', '/')} |" for each in rest]
    seconds = sum(outcome.seconds for outcome in outcomes)
    return "\n".join([*lines, "", f"{len(outcomes)} parts in {seconds:.0f} s.", ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cpu-rehearsal", action="store_true", help="every part at tiny size, on the CPU")
    parser.add_argument("--only", action="append", choices=PARTS, metavar="PART", help="may be repeated")
    parser.add_argument("--out", type=Path, default=Path("gpu_all.md"), help="default: %(default)s")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--seconds", type=float, default=TOTAL_S, help="in all; default: %(default).0f")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="keep what each part wrote there")
    args = parser.parse_args()
    arguments = ["--device", "cpu", "--shape", "tiny"] if args.cpu_rehearsal else []
    patience = REHEARSAL if args.cpu_rehearsal else 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the part under way ends too
    if args.logs:
        args.logs.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    began = time.monotonic()
    for part in args.only or PARTS:
        left = args.seconds * patience - (time.monotonic() - began)
        if left < 1:
            outcome = Outcome(part, "late", 0.0, [], "the other parts took all the time")
        else:
            outcome = run_part(part, arguments, min(PARTS[part] * patience, left), args.logs)
        outcomes.append(outcome)
        print(f"{outcome.seconds:6.1f} s  {part}: {outcome.kind} {outcome.why}".rstrip(), flush=True)
    what = "Rehearsal on a CPU: no figure of a GPU" if args.cpu_rehearsal else "One GPU"
    text = table(outcomes, f"{what}, {time.strftime('%Y-%m-%d')}")
    args.out.write_text(text, encoding="utf-8")
    print(f"\n{text}")
    if args.json:
        document = [{**vars(each), "rows": [vars(row) for row in each.rows]} for each in outcomes]
        args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return int(any(outcome.kind not in ("ok", "skipped") for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
