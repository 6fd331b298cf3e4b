"""Small runs that kill themselves at a chosen moment, and what an interrupted run must leave.

``python killing.py OUT PLAN`` carries a run out. PLAN is JSON: ``recipe`` and ``overrides``; and either
``times``, a file for the seconds that every call of every phase took, or ``phase``, ``call`` (from 0) and
``after_s``: the moment, counted from the beginning of that call, at which the process sends itself
``signal``, by default SIGKILL; or ``resume``.
"""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tiny_run import TINY

HERE = Path(__file__).resolve().parent
PHASES = ("rollout", "learner", "weight sync", "checkpoint")
STEPS = 6
SMALL = [
    *TINY,
    "warmstart.episodes=60",
    "warmstart.steps=20",
    "warmstart.warmup_steps=2",
    "rollout.max_new_tokens=16",
    f"env.coach={HERE / 'length_coach.py'}:LengthCoach",
    "eval.episodes=9",
    f"run.steps={STEPS}",
    "run.checkpoint_every=2",
]
REAL = [
    "engine.name=hf",  # repeats itself to the bit
    "engine.max_num_seqs=128",  # the defaults again: hf has no use for the recipe's
    "engine.kv_cache_mb=256",
    "engine.dtype=learner",
    "optim.autocast=false",
    "algo.importance_sampling=none",
    "warmstart.episodes=32",
    "warmstart.steps=4",
    "warmstart.warmup_steps=1",
    "rollout.episodes_per_step=8",
    "rollout.max_new_tokens=24",
    "algo.overlong_buffer=8",
    "eval.episodes=4",
    "eval.calibration_temperatures=[]",
    "run.tensorboard=false",
    f"run.steps={STEPS}",
    "run.checkpoint_every=2",
]
ASYNC = ["rollout.staleness=1", "algo.importance_sampling=tis"]


class Run(NamedTuple):
    """What is killed: a recipe, and what makes it small."""

    recipe: str
    overrides: Sequence[str]


DEMO = Run("demo", SMALL)
SMOLLM2 = Run("smollm2_lora", REAL)
"""A real model, which ``make llm`` prepares: its adapters learn, each for its agent."""


class Moment(NamedTuple):
    """``after_s`` seconds into the ``call``-th call of a phase."""

    phase: str
    call: int
    after_s: float


def draw(times: dict[str, list[float]], phase: str, rng: random.Random) -> Moment:
    """A moment of ``phase``, uniform over its calls and their lengths (but before the last checkpoint)."""
    calls = times[phase][:-1] if phase == "checkpoint" else times[phase]
    call = rng.randrange(len(calls))
    return Moment(phase, call, rng.random() * calls[call])


def spawned(out: Path, plan: dict[str, Any]) -> int:
    """A plan in a process of its own; its exit status, negative for a signal."""
    command = [sys.executable, str(Path(__file__).resolve()), str(out), json.dumps(plan)]
    return subprocess.run(command, stdout=subprocess.DEVNULL, timeout=600).returncode


def forked(out: Path, plan: dict[str, Any]) -> int:
    """The same without the time that imports take, if the caller has made them. For one thread alone."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        carry_out(out, plan)
        code = 0
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    except BaseException:  # noqa: BLE001  (shown here, as the process ends before Python would)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


Runner = Callable[[Path, dict[str, Any]], int]


def run_whole(
    out: Path, overrides: Sequence[str] = (), runner: Runner = spawned, of: Run = DEMO
) -> dict[str, list[float]]:
    """An uninterrupted run; seconds of every call, by phase."""
    times = out.with_name(f"{out.name}-times.json")
    code = runner(out, {**_plan(of, overrides), "times": str(times)})
    assert code == 0, f"the run ended with {code}"
    found: dict[str, list[float]] = json.loads(times.read_text())
    return found


def run_killed(
    out: Path,
    moment: Moment,
    overrides: Sequence[str] = (),
    runner: Runner = spawned,
    of: Run = DEMO,
) -> None:
    code = runner(out, {**_plan(of, overrides), **moment._asdict()})
    assert code == -signal.SIGKILL, f"the run ended with {code} before {moment}"


def _plan(of: Run, overrides: Sequence[str]) -> dict[str, Any]:
    return {"recipe": of.recipe, "overrides": [*of.overrides, *overrides]}


def resume(out: Path) -> None:
    """As a user does."""
    done = subprocess.run(
        [sys.executable, "-m", "mappa_rl.cli", "train", "--resume", str(out)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def outcome(out: Path) -> tuple[list[dict[str, Any]], dict[str, dict[str, bytes]]]:
    """Metrics without the clocks', and the weights at the end, policy by policy."""
    from safetensors.numpy import load_file

    from mappa_rl.telemetry.sinks import read_metrics

    clocks = ("time/", "tokens_per_s")
    rows = [{k: v for k, v in row.items() if not k.startswith(clocks)} for row in read_metrics(out)]
    final = out / "checkpoints" / f"step-{STEPS:06}" / "policies"
    weights = {
        policy.name: {
            f"{path.relative_to(policy)}: {name}": value.tobytes()
            for path in sorted(policy.rglob("*.safetensors"))
            for name, value in load_file(path).items()
        }
        for policy in sorted(final.iterdir())
    }
    assert all(weights.values()), f"no weights in {final}"
    return rows, weights


def result(out: Path) -> dict[str, Any]:
    """What the summary says of the episodes: all but clocks, versions and folders."""
    summary = json.loads((out / "summary.json").read_bytes())
    return {name: summary[name] for name in ("arms", "seeds", "episodes", "calibration", "faults")}


def run_stopped(
    out: Path,
    moment: Moment,
    number: signal.Signals,
    overrides: Sequence[str] = (),
    runner: Runner = spawned,
    of: Run = DEMO,
) -> float:
    """A signal that a run can hear: it saves itself and ends. Returns the seconds from signal to end."""
    heard = out.with_name(f"{out.name}-heard")
    plan = {**_plan(of, overrides), **moment._asdict(), "signal": number, "heard": str(heard)}
    code = runner(out, plan)
    ended = time.time()
    assert code == 128 + number, f"the run ended with {code} after {number.name} at {moment}"
    return ended - float(heard.read_text())


def members(out: Path) -> list[str]:
    """Command lines of living processes that name a run's folder."""
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            lines += [line] if str(out) in line else []
    return lines


def saved_steps(out: Path) -> tuple[int, int]:
    """The last complete step by the run's metrics, and the step of its newest checkpoint."""
    from mappa_rl.learner.checkpoint import Checkpoints
    from mappa_rl.telemetry.sinks import read_metrics

    latest = Checkpoints(out / "checkpoints", keep=1).latest()
    rows = read_metrics(out)
    return rows[-1]["step"] if rows else 0, int(latest.name.removeprefix("step-")) if latest else 0


def _die(plan: dict[str, Any]) -> None:
    if "heard" in plan:
        Path(plan["heard"]).write_text(str(time.time()))
    os.kill(os.getpid(), plan.get("signal", signal.SIGKILL))


def _hooked(
    method: Callable[..., Any], phase: str, plan: dict[str, Any], times: dict[str, list[float]]
) -> Any:
    @functools.wraps(method)
    def called(*args: Any, **options: Any) -> Any:
        mine = plan.get("phase") == phase and plan["call"] == len(times[phase])
        if mine:  # a call of microseconds is over before a timer begins: kill before it
            die = functools.partial(_die, plan)
            threading.Timer(plan["after_s"], die).start() if plan["after_s"] > 0.001 else die()
        started = time.perf_counter()
        done = method(*args, **options)
        times[phase].append(time.perf_counter() - started)
        return done

    return called


def carry_out(out: Path, plan: dict[str, Any]) -> None:
    """See above; in the process that calls."""
    from mappa_rl.config import load_config
    from mappa_rl.learner.checkpoint import Checkpoints
    from mappa_rl.learner.learner import Learner
    from mappa_rl.rollout import batches
    from mappa_rl.rollout.policies import Policies
    from mappa_rl.stopping import Terminated
    from mappa_rl.training.trainer import train

    if plan.get("resume"):
        train(load_config(out / "config.yaml"), out, resume=True)
        return
    times: dict[str, list[float]] = {phase: [] for phase in PHASES}
    config = load_config(plan["recipe"], [f"out={out}", *plan["overrides"]])
    kind: Any = batches.AsyncBatches if config.is_async else batches.OnPolicyBatches
    hooks: list[tuple[Any, str, str]] = [
        (kind, "take", "rollout"),
        (Learner, "step", "learner"),
        (Policies, "sync", "weight sync"),
        (Checkpoints, "save", "checkpoint"),
    ]
    for owner, name, phase in hooks:
        setattr(owner, name, _hooked(getattr(owner, name), phase, plan, times))
    try:
        train(config, out)
    except KeyboardInterrupt as stop:
        sys.exit(128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT))
    if "times" in plan:
        Path(plan["times"]).write_text(json.dumps(times))


if __name__ == "__main__":
    carry_out(Path(sys.argv[1]), json.loads(sys.argv[2]))
