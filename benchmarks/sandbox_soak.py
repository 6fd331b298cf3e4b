"""Does anything stay behind after thousands of actions, some of them hostile? Is every one answered, once?

Of every 50 actions six are a timeout, a memory bomb, a fork bomb, an output flood, a full disk and a crash;
the rest is ordinary. Each prints a token of its own first and must be answered with that token and a status
that fits it. Threads work in rounds; between rounds everybody rests and the host's holdings are listed.

The work is done by a child process, whose parent adopts every orphan: after the child's end no process may be
left. Resident memory must stay within 5 % of what it was at the end of the warm-up: the first fifth of the
actions, at least 1,000. By then every thread has met every kind of action, and what malloc keeps for each
thread is as large as it gets.

    python benchmarks/sandbox_soak.py [--quick] [--actions N] [--sandbox NAME] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from mappa_env.benchmarking.leaks import Holdings, adopt_orphans, children, holdings
from mappa_env.benchmarking.workload import Job, complaint, jobs
from mappa_env.errors import SandboxWarning
from mappa_env.sandbox import Sandbox, make_sandbox

ROUNDS, STAY, WARM_UP, TOLERANCE = 20, 12, 1000, 0.05
GRACE_S = 10.0
"""How long the end may take after ``close``: processes that were killed need a moment to be gone."""


class Rest(NamedTuple):
    """What the host held when nobody worked. Few numbers: what it keeps must not count as a leak."""

    actions: int
    rss_kb: int
    descriptors: int
    zombies: int


@dataclass
class Ledger:
    """What was answered; shared by the threads. ``answers``: how often, by the action's number.

    Made in full before the first action: what it grew by would count as the sandbox's memory.
    """

    answers: bytearray
    statuses: dict[str, Counter[str]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    isolation: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


def work(spec: str, count: int, threads: int, stop: threading.Event) -> dict[str, Any]:
    """All actions, then the report."""
    warnings.simplefilter("ignore", SandboxWarning)
    ledger, began = Ledger(bytearray(count)), time.monotonic()
    sandbox = make_sandbox(spec)
    todo = list(jobs(count))
    size = -(-count // ROUNDS)
    rests: list[Rest] = []
    warm_up = max(count // 5, WARM_UP)
    base: Holdings | None = None
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task(f"{count} actions, sandbox {spec}", total=count)
        with ThreadPoolExecutor(threads) as pool:
            for start in range(0, count, size):
                waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
                for job in todo[start : start + size]:
                    waiting.put(job)
                crews = [pool.submit(crew, sandbox, waiting, ledger, stop) for _ in range(threads)]
                for each in crews:
                    each.result()
                now, done = holdings(), sum(ledger.answers)
                if base is None or rests[-1].actions < warm_up <= done:
                    base = now
                rests.append(Rest(done, now.rss_kb, now.files.total(), now.zombies))
                progress.update(task, completed=done)
                if stop.is_set():
                    break
    sandbox.close()
    left = holdings().beyond(base) if base else []  # a pool that stays for others is no leak
    return {
        "sandbox": spec, "isolation": dict(ledger.isolation), "actions": count, "threads": threads,
        "seconds": time.monotonic() - began, "interrupted": stop.is_set(),
        "answered": count - ledger.answers.count(0), "twice": sum(n > 1 for n in ledger.answers),
        "lost": 0 if stop.is_set() else ledger.answers.count(0),
        "statuses": {kind: dict(counts) for kind, counts in sorted(ledger.statuses.items())},
        "complaints": ledger.complaints, "left_in_the_host": left,
        "rests": [rest._asdict() for rest in rests],
        "warm_up_actions": warm_up,
        "rss_change": change([rest.rss_kb for rest in rests if rest.actions >= warm_up]),
    }  # fmt: skip


def crew(sandbox: Sandbox, waiting: queue.SimpleQueue[Job], ledger: Ledger, stop: threading.Event) -> None:
    """One thread: a workspace for every dozen actions, as in an episode."""
    while not (stop.is_set() or waiting.empty()):
        with sandbox.open_workspace() as workspace:
            for _ in range(STAY):
                try:
                    job = waiting.get_nowait()
                except queue.Empty:
                    return
                result = sandbox.run(workspace, job.code, job.kind.limits, seed=job.number)
                wrong = complaint(job, result)
                with ledger.lock:
                    ledger.answers[job.number] += 1
                    ledger.statuses.setdefault(job.kind.name, Counter())[result.status] += 1
                    ledger.isolation[result.isolation] += 1
                    ledger.complaints += [wrong] if wrong else []
                if stop.is_set():
                    return


def change(rss: Sequence[int]) -> float | None:
    """The largest difference from the first, as a share; None where there is no second."""
    return max((abs(kb / rss[0] - 1) for kb in rss[1:]), default=None)


def supervise(command: Sequence[str]) -> tuple[int, list[str]]:
    """Run the child as an init would: (its exit status, what of its descendants outlives it)."""
    adopt_orphans()
    worker = subprocess.Popen(command).pid
    while (ended := os.waitpid(-1, 0))[0] != worker:
        pass
    end = time.monotonic() + GRACE_S
    while children(os.getpid()) and time.monotonic() < end:
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        time.sleep(0.05)
    left = [f"process {pid} ({name}, {state})" for pid, state, name in children(os.getpid())]
    return os.waitstatus_to_exitcode(ended[1]), left


def show(report: dict[str, Any]) -> bool:
    """Print the report; True when all is well."""
    console = Console(width=100)
    table = Table("kind of action", "actions", "statuses", title=f"sandbox {report['sandbox']}")
    for kind, counts in report["statuses"].items():
        table.add_row(kind, f"{sum(counts.values()):,}", ", ".join(f"{s} {n:,}" for s, n in counts.items()))
    console.print(table)
    left = report["left_in_the_host"] + report["left_on_the_machine"]
    change = report["rss_change"]
    rss = [rest["rss_kb"] for rest in report["rests"]]
    memory = "too few actions to tell" if change is None else f"{change:.1%} at most since the warm-up"
    checks = {
        "answered": (f"{report['answered']:,} of {report['actions']:,} in {report['seconds']:.0f} s",
                     not report["lost"] and not report["interrupted"]),
        "answered twice": (str(report["twice"]), not report["twice"]),
        "wrong token or status": (str(len(report["complaints"])), not report["complaints"]),
        "left behind": (str(len(left)), not left),
        "resident memory": (f"{memory}; {rss[0] / 1024:.1f} MiB first, {rss[-1] / 1024:.1f} MiB last",
                            change is None or change <= TOLERANCE),
    }  # fmt: skip
    table = Table("check", "found", "")
    for name, (found, fine) in checks.items():
        table.add_row(name, found, "[green]ok" if fine else "[red]FAILED")
    console.print(table)
    for line in [*report["complaints"][:10], *left[:20]]:
        console.print(escape(line))
    return all(fine for _, fine in checks.values())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="200 actions, under a minute")
    parser.add_argument("--actions", type=int, metavar="N", help="default: 10,000")
    parser.add_argument("--threads", type=int, default=8, metavar="N", help="default: %(default)s")
    parser.add_argument("--sandbox", default="local", help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the report here")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    count = args.actions or (200 if args.quick else 10_000)
    if args.worker:
        stop = threading.Event()
        signal.signal(signal.SIGINT, lambda *_: stop.set())
        args.worker.write_text(json.dumps(work(args.sandbox, count, args.threads, stop)))
        return 0
    with tempfile.TemporaryDirectory(prefix="mappa-soak-") as folder:
        place, temporary = Path(folder, "report.json"), Path(folder, "tmp")
        temporary.mkdir()
        os.environ["TMPDIR"] = str(temporary)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker stops and reports
        before = holdings().mounts
        options = ["--actions", str(count), "--threads", str(args.threads), "--sandbox", args.sandbox]
        status, left = supervise([sys.executable, __file__, *options, "--worker", str(place)])
        if status:
            print(f"the worker ended with {status}", file=sys.stderr)
            return 1
        report = json.loads(place.read_text())
        left += [f"mount: {line}" for line in holdings().mounts - before]
        left += [f"file: {name}" for name in os.listdir(temporary)]
    report["left_on_the_machine"] = left
    fine = show(report)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
