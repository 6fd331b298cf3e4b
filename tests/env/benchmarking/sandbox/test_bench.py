"""The sandbox benchmark: its answers, figures and exit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from mappa_env.benchmarking.sandbox import command
from mappa_env.benchmarking.sandbox.actions import ACTIONS
from mappa_env.benchmarking.sandbox.backends import Backend, SandboxBackend, labels
from mappa_env.benchmarking.sandbox.first_action import FirstAction
from mappa_env.benchmarking.sandbox.leaks import holdings
from mappa_env.benchmarking.sandbox.measurement import Plan, Slice, measure
from mappa_env.benchmarking.sandbox.report import Figure, Report
from mappa_env.benchmarking.sandbox.table import tables
from mappa_env.benchmarking.sandbox.warm_fork import WarmFork
from mappa_env.benchmarking.sandbox.workload import HOSTILE, complaint, jobs
from mappa_env.cli import main
from mappa_env.sandbox import Result, make_sandbox
from paths import ROOT

PRINT = ACTIONS["print"]
BENCHMARKS = ROOT / "benchmarks"


class Fake:
    """Answers at once: first the answers of ``script``, then correct ones."""

    def __init__(self, name: str, script: list[Result | BaseException] | None = None) -> None:
        self.name = name
        self.script = script or []
        self.closed = 0

    def caller(self) -> Fake:
        return self

    def run(self, code: str, seed: int) -> Result:
        answer = self.script.pop(0) if self.script else Result("ok", 0, "done\n", "", isolation=self.name)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        self.closed += 1


def plan(*backends: str, in_flight: tuple[int, ...] = (1,), repeats: int = 2, patience: float = 60.0) -> Plan:
    return Plan(labels(backends), (PRINT,), in_flight, repeats, 0.01, patience)


def sliced(backend: str, repeat: int, *milliseconds: float, failure: str = "") -> Slice:
    times = tuple(ms / 1000 for ms in milliseconds)
    return Slice((backend, "print", 1), repeat, times, 2.0, backend, failure)


# -- figures ----------------------------------------------------------------------------------------------


def test_percentiles_are_values_that_were_measured() -> None:
    found = sliced("process", 0, *range(1, 101))
    assert (found.percentile(0.5), found.percentile(0.95), found.rate) == (50, 95, 50)
    assert sliced("process", 0, 7).percentile(0.95) == 7


def test_ratios_are_taken_within_a_repeat() -> None:
    report = Report(
        [
            *(sliced("process", repeat, ms) for repeat, ms in enumerate((1000, 3000))),
            *(sliced("local", repeat, ms) for repeat, ms in enumerate((10, 15, 99))),
            *(sliced("floor", repeat, ms) for repeat, ms in enumerate((5, 5))),
        ],
        {"local": [FirstAction(0.1, 1.0, 2.0), FirstAction(0.2, 3.0, 4.0)]},
    )
    figures = report.figures([(name, "print", 1) for name in ("process", "local", "floor", "bwrap")])
    assert figures["local/print/1/speed_up"].repeats == [100, 200]
    assert figures["local/print/1/over_floor"] == Figure("p50 / p50 of floor", 2.5, [2, 3])
    assert figures["local/print/1/over_floor"].as_json() == {
        "unit": "p50 / p50 of floor",
        "median": 2.5,
        "repeats": [2, 3],
    }
    assert figures["local/print/1/p50"].median == 15
    assert figures["first/local/answer"] == Figure("s", 2.0, [1.0, 3.0])
    assert not [name for name in figures if name.startswith("bwrap")]  # not measured: no figure


def test_labels_are_short_and_hold_no_password() -> None:
    names = ("local", "fusion:http://me:secret@here:1", "fusion:http://there", "some/mine.py:Mine")
    assert labels(names) == dict(zip(("local", "fusion", "fusion'", "Mine"), names, strict=True))


# -- measuring --------------------------------------------------------------------------------------------


def test_backends_take_turns_and_every_caller_acts() -> None:
    slices = [
        found
        for found in measure(plan("a", "b", in_flight=(1, 3)), [Fake("a"), Fake("b")])
        if isinstance(found, Slice)
    ]
    cells = [("a", "print", 1), ("b", "print", 1), ("a", "print", 3), ("b", "print", 3)]
    assert [found.cell for found in slices] == cells * 2
    assert all(len(found.times) >= found.cell[2] for found in slices)
    assert {(found.cell[0], found.isolation) for found in slices} == {("a", "a"), ("b", "b")}


def test_a_cell_that_takes_too_long_is_left_out() -> None:
    assert not [found for found in measure(plan("a", patience=0.0), [Fake("a")]) if isinstance(found, Slice)]


WRONG = Result("error", 1, "done\n", "Traceback: boom")
SILENT = Result("ok", 0, "", "")


@pytest.mark.parametrize(("wrong", "said"), [(WRONG, "error: Traceback: boom"), (SILENT, "ok: ")])
def test_a_wrong_answer_counts_as_failure_and_is_not_repeated(wrong: Result, said: str) -> None:
    right = Result("ok", 0, "done\n", "")
    fake = Fake("a", [*[right] * len(os.sched_getaffinity(0)), wrong])  # the warm-up takes one per core
    slices = [found for found in measure(plan("a"), [fake]) if isinstance(found, Slice)]
    assert [found.failure for found in slices] == [said]
    assert Report(slices).failures == [f"a print 1 in flight: {said}"]


def test_what_a_backend_raises_is_not_lost() -> None:
    with pytest.raises(OSError, match="no more descriptors"):
        list(measure(plan("a"), [Fake("a", [OSError("no more descriptors")])]))


# -- the floor and a sandbox ------------------------------------------------------------------------------


@pytest.fixture
def floor() -> Iterator[WarmFork]:
    made = WarmFork(sys.executable, {"PATH": "/usr/bin:/bin"}, ["json", "no_such_module"])
    yield made
    made.close()


def test_the_floor_runs_what_it_is_given(floor: WarmFork) -> None:
    first, second = floor.caller(), floor.caller()
    assert first.run("print('done')", 0).stdout == "done\n"
    assert first.run("open('a', 'w').close()", 0).status == "ok"
    assert second.run("import os; print(os.listdir())", 0).stdout == "[]\n"
    failed = second.run("import sys\nprint('json' in sys.modules, flush=True)\n1 / 0", 0)
    assert (failed.status, failed.exit_code, failed.stdout[:5]) == ("error", 1, "True\n")
    assert "ZeroDivisionError" in failed.stdout
    assert second.run("import os; os._exit(3)", 0).exit_code == 3


@pytest.mark.slow
def test_nothing_stays_after_measuring(floor: WarmFork) -> None:
    before = holdings()
    opened: list[Backend] = [floor, SandboxBackend("process", make_sandbox("process"))]
    found = [
        found
        for found in measure(plan("floor", "process", in_flight=(2,), repeats=1), opened)
        if isinstance(found, Slice)
    ]
    assert [(each.cell[0], each.failure) for each in found] == [("floor", ""), ("process", "")]
    assert [line for line in holdings().beyond(before) if line.startswith(("descriptor", "mount"))] == []


# -- the command ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_writes_a_table_figures_and_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    options = "--backends process --actions print --concurrency 2,1 --repeats 1 --seconds 0.05"
    files = {"--json": tmp_path / "figures.json", "--figure": tmp_path / "figure.png"}
    written = [word for name, path in files.items() for word in (name, str(path))]
    assert main(["bench", "sandbox", *options.split(), *written]) == 0
    assert "print: print one line" in capsys.readouterr().out
    document = json.loads(files["--json"].read_text())
    assert document["isolation"] == {"process": "process"}
    figures = document["figures"]
    assert set(figures) == {
        *(f"process/print/{n}/{what}" for n in (1, 2) for what in ("p50", "p95", "rate")),
        *(f"first/process/{what}" for what in FirstAction._fields),
    }
    for figure in figures.values():
        assert len(figure["repeats"]) == 1
        assert figure["median"] > 0
    assert files["--figure"].read_bytes().startswith(b"\x89PNG")


def test_a_dry_run_only_says_what_it_would_do(capsys: pytest.CaptureFixture[str]) -> None:
    options = "--dry-run --backends fusion:http://me:secret@nowhere:1,floor --actions work"
    assert main(["bench", "sandbox", *options.split()]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "2 backends (fusion, floor), 1 actions, 1, 2, 8, 64 in flight: 8 cells" in said


def test_an_interrupt_shows_what_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = [Fake("a"), Fake("b")]
    monkeypatch.setattr(command, "open_backends", lambda *_: opened)
    monkeypatch.setattr(Fake, "caller", _interrupt_after(40))
    options = "--backends a,b --actions print --concurrency 1 --seconds 0.01 --repeats 100"
    assert main(["bench", "sandbox", *options.split()]) == 130
    out = capsys.readouterr().out
    assert "interrupted" in out
    assert "print: print one line" in out
    assert all(target.closed for target in opened)


def _interrupt_after(count: int):  # type: ignore[no-untyped-def]
    def caller(self: Fake) -> Fake:
        nonlocal count
        count -= 1
        if count == 0:
            raise KeyboardInterrupt
        return self

    return caller


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--actions prnt", "Did you mean 'print'?"),
        ("--concurrency 0", "must be a list of numbers above 0"),
        ("--concurrency 1,x", "must be a list of numbers above 0"),
        ("--repeats 0", "both must be above 0"),
        ("--seconds nan", "both must be above 0"),
        ("--backends prcess", "'prcess' is not a sandbox"),
    ],
)
def test_wrong_options_name_the_remedy(
    options: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "sandbox", *options.split()]) == 2
    assert message in capsys.readouterr().err


def test_the_tables_hold_a_dash_for_what_was_not_measured() -> None:
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    for table in tables(plan("process", "local"), Report([sliced("process", 0, 5)])):
        console.print(table)
    rows = [line.split() for line in console.export_text().splitlines() if "│" in line]
    assert [row[5] for row in rows] == ["5", "-"]


# -- the soak's workload ----------------------------------------------------------------------------------


def test_the_mixture_holds_two_per_cent_of_each_hostile_kind() -> None:
    made = list(jobs(1000))
    for kind in HOSTILE:
        assert sum(job.kind is kind for job in made) == 20
    assert len({job.token for job in made}) == 1000
    assert [job.code for job in made] == [job.code for job in jobs(1000)]
    for code in {job.code for job in made}:
        compile(code, "<action>", "exec")


def test_only_the_right_answer_is_accepted() -> None:
    job = next(job for job in jobs(50) if job.kind.name == "timeout")
    good = Result("timeout", None, job.token + "\n", "")
    assert complaint(job, good) == ""
    for status, out in (("ok", job.token), ("timeout", ""), ("timeout", job.token * 2)):
        assert complaint(job, Result(status, None, out, "")).startswith(f"action {job.number} (timeout): ")  # type: ignore[arg-type]
    assert complaint(job, Result("timeout", None, f"{job.token} token-1-{'0' * 16}", "")) != ""


LEAKY = '''
import os, re, subprocess, tempfile
from mappa_env.sandbox import Result
from mappa_env.workspace.workspace import Workspace

class Leaky:
    """Answers nearly everything rightly, and leaves one of everything behind."""
    name = isolation = "leaky"
    kept = []

    def run(self, workspace, code, limits, *, seed=0):
        if seed == 20:
            subprocess.run(["sh", "-c", "sleep 60 >/dev/null 2>&1 &"])
            tempfile.mkstemp(prefix="kept-")
            self.kept.append(subprocess.Popen(["true"]))
        token = re.search(r"token-[-0-9a-f]+", code)[0]
        return Result("ok", 0, token if seed != 30 else "token-31-0000000000000000", "", isolation="leaky")

    def open_workspace(self):
        return Workspace()

    def close(self):
        pass
'''


@pytest.mark.slow
def test_the_soak_finds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "leaky.py").write_text(LEAKY)
    report = tmp_path / "report.json"
    options = ["--actions", "40", "--sandbox", f"{tmp_path}/leaky.py:Leaky", "--json", str(report)]
    program = f"import sandbox_soak as soak; soak.GRACE_S = 0.5; raise SystemExit(soak.main({options!r}))"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=BENCHMARKS, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1, ran.stderr
    found = json.loads(report.read_text())
    assert (found["answered"], found["twice"], found["lost"]) == (40, 0, 0)
    assert any(text.startswith("action 30 (") and "token-31-" in text for text in found["complaints"])
    hostile = sum(job.kind.expected != ("ok",) for job in jobs(40))
    assert len(found["complaints"]) in (hostile, hostile + 1)  # action 30 may be one of them
    in_the_host = " ".join(found["left_in_the_host"])
    assert "kept-" in in_the_host
    assert "1 zombies" in in_the_host
    on_the_machine = " ".join(found["left_on_the_machine"])
    assert "(sleep, S)" in on_the_machine
    assert "kept-" in on_the_machine
