"""Run thousands of actions, some hostile: does each get exactly one correct answer, and does anything leak?

Of every 50 actions six are a timeout, a memory bomb, a fork bomb, an output flood, a full disk and a crash;
the rest are ordinary. Each first prints its own token, and its answer must have that token and a fitting
status. Threads work in rounds; between rounds no action runs, and the script records the host's resources.

A child process does the work, and its parent adopts every orphan: after the child's end no process may be
left. Resident memory must remain within 5 % of its size at the end of the warm-up, the first fifth of the
actions and at least 1,000. By then every thread has run every kind of action, so malloc's reserves per thread
no longer grow.

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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from mappa_env.benchmarking.sandbox.leaks import Holdings, adopt_orphans, children, holdings
from mappa_env.benchmarking.sandbox.workload import Job, complaint, jobs
from mappa_env.errors import SandboxWarning
from mappa_env.sandbox import Sandbox, make_sandbox

ROUNDS, STAY, WARM_UP, TOLERANCE = 20, 12, 1000, 0.05
GRACE_S = 10.0
"""Seconds after ``close`` until killed processes must be gone."""


@dataclass(frozen=True)
class Rest:
    """The host's resources between rounds."""

    actions: int
    rss_kb: int
    descriptors: int
    zombies: int


@dataclass(kw_only=True)
class Report:
    """What a soak found. ``statuses``: kind of action -> status -> answers; ``seconds``: of all actions.

    ``rss_change``: the largest relative difference from the warm-up's end; None if nothing followed it.
    """

    sandbox: str
    isolation: dict[str, int]
    actions: int
    threads: int
    seconds: float
    interrupted: bool
    answered: int
    twice: int
    lost: int
    statuses: dict[str, dict[str, int]]
    complaints: list[str]
    left_in_the_host: list[str]
    rests: list[Rest]
    warm_up_actions: int
    rss_change: float | None
    left_on_the_machine: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Self:
        """The report that a worker wrote."""
        return TypeAdapter(cls).validate_json(path.read_bytes())

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


@dataclass
class Ledger:
    """The answers of all threads. ``answers``: number of answers by the action's number.

    Allocated in full before the first action, so that its growth does not count as the sandbox's memory.
    """

    answers: bytearray
    statuses: dict[str, Counter[str]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    isolation: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


def work(spec: str, count: int, threads: int, stop: threading.Event) -> Report:
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
    return Report(
        sandbox=spec,
        isolation=dict(ledger.isolation),
        actions=count,
        threads=threads,
        seconds=time.monotonic() - began,
        interrupted=stop.is_set(),
        answered=count - ledger.answers.count(0),
        twice=sum(n > 1 for n in ledger.answers),
        lost=0 if stop.is_set() else ledger.answers.count(0),
        statuses={kind: dict(counts) for kind, counts in sorted(ledger.statuses.items())},
        complaints=ledger.complaints,
        left_in_the_host=left,
        rests=rests,
        warm_up_actions=warm_up,
        rss_change=change([rest.rss_kb for rest in rests if rest.actions >= warm_up]),
    )


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
    """The largest relative difference from the first; None if there is only one."""
    return max((abs(kb / rss[0] - 1) for kb in rss[1:]), default=None)


def supervise(command: Sequence[str]) -> tuple[int, list[str]]:
    """Run the child as an init process would; returns its exit status and the descendants that outlive it."""
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


def show(report: Report) -> bool:
    """Print the report; True when all is well."""
    console = Console(width=100)
    table = Table("kind of action", "actions", "statuses", title=f"sandbox {report.sandbox}")
    for kind, counts in report.statuses.items():
        table.add_row(kind, f"{sum(counts.values()):,}", ", ".join(f"{s} {n:,}" for s, n in counts.items()))
    console.print(table)
    left = report.left_in_the_host + report.left_on_the_machine
    change = report.rss_change
    rss = [rest.rss_kb for rest in report.rests]
    memory = "too few actions to tell" if change is None else f"{change:.1%} at most since the warm-up"
    checks = {
        "answered": (
            f"{report.answered:,} of {report.actions:,} in {report.seconds:.0f} s",
            not report.lost and not report.interrupted,
        ),
        "answered twice": (str(report.twice), not report.twice),
        "wrong token or status": (str(len(report.complaints)), not report.complaints),
        "left behind": (str(len(left)), not left),
        "resident memory": (
            f"{memory}; {rss[0] / 1024:.1f} MiB first, {rss[-1] / 1024:.1f} MiB last",
            change is None or change <= TOLERANCE,
        ),
    }
    table = Table("check", "found", "")
    for name, (found, fine) in checks.items():
        table.add_row(name, found, "[green]ok" if fine else "[red]FAILED")
    console.print(table)
    for line in [*report.complaints[:10], *left[:20]]:
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
        work(args.sandbox, count, args.threads, stop).write(args.worker)
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
        report = Report.read(place)
        left += [f"mount: {line}" for line in holdings().mounts - before]
        left += [f"file: {name}" for name in os.listdir(temporary)]
    report.left_on_the_machine = left
    fine = show(report)
    if args.json:
        report.write(args.json)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
