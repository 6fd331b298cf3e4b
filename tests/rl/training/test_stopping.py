"""Ctrl-C and SIGTERM save a run, and two processes never work on the same folder."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import psutil
import pytest

from killing import PHASES, SMALL, draw, members, outcome, resume, run_stopped, run_whole, saved_steps
from mappa_rl.cli import main
from mappa_rl.errors import RunError
from mappa_rl.learner.checkpoint import Checkpoints
from mappa_rl.learner.parallel import Processes
from mappa_rl.stopping import SIGNALS, Stopping, Terminated
from mappa_rl.telemetry.sinks import read_metrics
from mappa_rl.training.build import Parts
from mappa_rl.training.lock import locked
from mappa_rl.training.saver import Saver


def test_signals_raise_at_once_and_handlers_come_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with Stopping(), pytest.raises(Terminated):
        signal.raise_signal(signal.SIGTERM)
    with Stopping(), pytest.raises(KeyboardInterrupt) as caught:
        signal.raise_signal(signal.SIGINT)
    assert caught.type is KeyboardInterrupt
    assert [signal.getsignal(number) for number in SIGNALS] == before


@pytest.mark.parametrize("number", SIGNALS)
def test_a_held_signal_waits_for_the_release(number: signal.Signals) -> None:
    with Stopping() as stopping:
        stopping.hold()
        signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt) as caught:
            stopping.release()
        assert (caught.type is Terminated) == (number == signal.SIGTERM)
        stopping.hold()
        stopping.release()  # it is delivered once


def test_a_second_signal_is_not_held_but_copies_of_the_first_are() -> None:
    with Stopping(copies_s=3.0) as stopping:
        stopping.hold()
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):  # as launchers pass them on
            signal.raise_signal(number)
        time.sleep(3.1)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_what_must_be_complete_outlasts_the_patience() -> None:
    with Stopping(patience_s=0.05, copies_s=0.0) as stopping:
        stopping.hold(patient=True)
        signal.raise_signal(signal.SIGTERM)
        time.sleep(0.2)
        with pytest.raises(Terminated):
            stopping.release()


def test_a_block_that_has_ended_ends_no_process_and_ignored_signals_stay_ignored() -> None:
    script = """
import signal, time
from mappa_rl.stopping import Stopping
signal.signal(signal.SIGINT, signal.SIG_IGN)
try:
    with Stopping(limit_s=2.0):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
except KeyboardInterrupt:
    time.sleep(3)
    print('alive')
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_patience_ends() -> None:
    with Stopping(patience_s=1.0) as stopping:
        stopping.hold()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Terminated):
            time.sleep(60)
        time.sleep(0.1)  # no second one follows


def test_a_thread_that_waits_does_not_keep_a_stopped_process(tmp_path: Path) -> None:
    script = """
import concurrent.futures, signal, time
from mappa_rl.stopping import Stopping
with Stopping(limit_s=1.0), concurrent.futures.ThreadPoolExecutor() as pool:
    pool.submit(time.sleep, 60)
    signal.raise_signal(signal.SIGTERM)
"""
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50)
    assert done.returncode == 143
    assert "ended although calls" in done.stderr
    assert time.monotonic() - started < 40


def test_another_thread_changes_nothing() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def elsewhere() -> None:
        with Stopping() as stopping:
            seen.append(signal.getsignal(signal.SIGTERM))
            stopping.hold()
            stopping.release()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_folder_in_use_is_refused_until_its_process_ends(tmp_path: Path) -> None:
    hold = "import sys; from pathlib import Path; from mappa_rl.training.lock import locked"
    script = f"{hold}\nwith locked(Path(sys.argv[1])):\n    print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(RunError, match=rf"in use by process {other.pid} on "), locked(tmp_path):
            pass
        other.kill()
    with locked(tmp_path):
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [SIGNALS[0], *(pytest.param(each, marks=pytest.mark.large) for each in SIGNALS[1:])]
)
def test_a_stopped_run_saves_its_last_step_and_resumes_to_the_uninterrupted_one(
    number: signal.Signals, tmp_path: Path
) -> None:
    """At any moment; ``benchmarks/kill_resume.py --signals`` does 20."""
    times = run_whole(tmp_path / "whole")
    expected = outcome(tmp_path / "whole")
    rng = random.SystemRandom()
    moment = draw(times, rng.choice(PHASES), rng)
    out = tmp_path / number.name
    run_stopped(out, moment, number, [f"warmstart.path={tmp_path / 'whole' / 'warmstart'}"])
    logged, saved = saved_steps(out)
    assert saved >= logged, moment
    resume(out)
    found = outcome(out)
    assert found[0] == expected[0], moment
    assert found[1] == expected[1], moment
    assert (out / "summary.json").is_file()


@pytest.mark.slow
def test_sigterm_saves_a_run_of_two_processes_and_ends_all_of_them(tmp_path: Path) -> None:
    more = ["optim.zero_stage=2", "run.steps=200", "run.checkpoint_every=0", "eval.episodes=2"]
    overrides = [*SMALL, "run.processes=2", *more]
    process = subprocess.Popen(
        [sys.executable, "-m", "mappa_rl.cli", "train", "demo", *overrides, f"out={tmp_path / 'run'}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    until = time.monotonic() + 240
    while len(read_metrics(tmp_path / "run")) < 2 and time.monotonic() < until:
        time.sleep(0.2)
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 143, shown
    assert time.monotonic() - started < 30
    assert "Terminated. The run so far is in" in shown
    logged, saved = saved_steps(tmp_path / "run")
    assert saved >= logged >= 2
    assert not members(tmp_path / "run")
    assert Checkpoints(tmp_path / "run" / "checkpoints", keep=1).intact("latest")
    assert main(["train", "--resume", str(tmp_path / "run"), f"run.steps={saved + 1}"]) == 0
    assert [row["step"] for row in read_metrics(tmp_path / "run")] == list(range(1, saved + 2))
    spent = json.loads((tmp_path / "run" / "summary.json").read_bytes())["phases"]
    assert spent["warm start"] > 0  # another process makes it than those that train
    assert spent["training"] > 0


@pytest.mark.large
def test_a_signal_to_every_process_at_once_saves_too(tmp_path: Path) -> None:
    """As systemd and Slurm send it: the command, its launcher and all workers hear it, and copies of it."""
    overrides = [*SMALL, "run.processes=2", "run.steps=200", "run.checkpoint_every=0", "optim.epochs=4"]
    command = [sys.executable, "-m", "mappa_rl.cli", "train", "demo", *overrides, f"out={tmp_path / 'run'}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    until = time.monotonic() + 240
    while len(read_metrics(tmp_path / "run")) < 2 and time.monotonic() < until:
        time.sleep(0.2)
    tree = [process.pid, *(child.pid for child in psutil.Process(process.pid).children(recursive=True))]
    started = time.monotonic()
    for pid in tree:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    shown, _ = process.communicate(timeout=60)
    assert time.monotonic() - started < 30
    logged, saved = saved_steps(tmp_path / "run")
    assert saved >= logged >= 2, shown
    assert not members(tmp_path / "run")


def test_a_score_survives_an_interrupted_checkpoint_and_any_numbers_are_metrics() -> None:
    class Checkpoints:
        calls: ClassVar[list[tuple[int, float | None]]] = []

        def save(self, step: int, learners: Any, state: Any, **rest: Any) -> None:
            self.calls.append((step, rest["score"]))
            if len(self.calls) == 1:
                raise KeyboardInterrupt

    parts: Any = SimpleNamespace(idle=True, learners={}, policies={})
    checkpoints: Any = Checkpoints()
    saver = Saver(checkpoints, parts, dict)
    saver.mark(2, {"x": np.float32(1.5)})
    saver.mark(3, score=0.9)
    with pytest.raises(KeyboardInterrupt):
        saver.save()
    assert saver.rescue() == "step 3 is saved"
    assert Checkpoints.calls == [(3, 0.9), (3, 0.9)]


def test_an_interruption_while_processes_share_weights_leaves_nothing_to_save(tmp_path: Path) -> None:
    processes = Processes({})
    none: Any = {}
    parts = Parts(none, {}, {}, none, processes)
    saver = Saver(Checkpoints(tmp_path, keep=1), parts, dict)
    saver.mark(3)
    with processes.gathering("p"):
        assert not processes.idle
    assert processes.idle
    with pytest.raises(KeyboardInterrupt), processes.gathering("p"):
        raise KeyboardInterrupt
    assert saver.rescue() == ("the update under way was not completed; there is no checkpoint yet")
    assert not list(tmp_path.iterdir())
