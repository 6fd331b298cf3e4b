"""Finished runs out of thin air: files in the real formats, numbers that look like learning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mappa_env.trace.record import TraceStore
from mappa_env.types import Outcome, Task, ToolResult, Trajectory, Verdict
from mappa_rl.config import Config, load_config
from mappa_rl.config.run_folder import write_config
from mappa_rl.evaluation.calibration import Calibration
from mappa_rl.evaluation.faults import demonstrated_faults
from mappa_rl.evaluation.results import Result, save_results
from mappa_rl.evaluation.summarise import summarise
from mappa_rl.evaluation.summary import Summary
from mappa_rl.telemetry.progress import Progress
from mappa_rl.telemetry.sinks import Metrics
from recorded import recorded

TOPICS = ("linear", "counting", "sequence", "number_theory")
AGENTS = ("solver_0", "coder_0", "verifier_0")
HOSTILE = "</pre><script>alert(1)</script><img src=https://evil.example/x.png> & \u202e{{ 7*7 }}"


def make_run(
    out: Path,
    *,
    seed: int = 0,
    gain: float = 0.5,
    steps: int = 24,
    episodes: int = 80,
    shaping: str = "process",
    best: float = 0.4,
    finished: bool = True,
    more: Sequence[str] = (),
) -> Config:
    """A run's folder. ``gain`` is what training adds to success; ``best`` the best temperature.

    ``more`` are further overrides.
    """
    overrides = [
        f"run.seed={seed}",
        f"env.shaping={shaping}",
        f"run.steps={steps}",
        f"eval.episodes={episodes}",
        "eval.temperatures=[1.0]",
        "rollout.episodes_per_step=128",
        *more,
    ]
    config = load_config("demo", overrides)
    config = write_config(config, out)
    rng = np.random.default_rng(seed)
    with Metrics(out, tensorboard=False) as metrics:
        for step in range(1, steps + 1):
            metrics.log(step, step_metrics(step, gain, rng))
    rates = [
        ("before", 1.0, 0.3),
        ("after", 1.0, 0.3 + gain),
        ("before", best, 0.5),
        ("after", best, 0.5 + gain / 2),
    ]
    for phase, temperature, rate in rates:
        save_results(out, results(phase, temperature, seed, rate, episodes))
    for phase, won in (("before", (False, False, True, True)), ("after", (True, False, False, True))):
        store = TraceStore(out / "traces" / f"{phase}.jsonl")
        for index, success in enumerate(won):
            store.append(trajectory(index, success))
        store.close()
    if finished:
        summary(out, config, best)
    return config


def summary(out: Path, config: Config, best: float = 0.4) -> Summary:
    progress = Progress("")
    progress.seconds |= {"demonstrations": 12.0, "warm start": 95.5, "training": 141.0}
    return summarise(
        out,
        config,
        episodes=config.run.steps * config.rollout.episodes_per_step,
        progress=progress,
        calibration=Calibration({1.0: 0.3, best: 0.5}),
        faults=demonstrated_faults("mathchat", TOPICS),
    )


def step_metrics(step: int, gain: float, rng: np.random.Generator) -> dict[str, float]:
    level = 0.3 + gain * (1 - math.exp(-step / 8))
    noise = rng.normal(0, 0.02, 20)
    values = {"success": level + noise[0], "tokens_per_s": 6000 + 100 * noise[1], "mismatch_max": 2e-5}
    values |= {f"reward/{agent}": 10 * level - i + noise[2 + i] for i, agent in enumerate(AGENTS)}
    values |= {f"success/{topic}": level - 0.05 * i + noise[6 + i] for i, topic in enumerate(TOPICS)}
    for i, agent in enumerate(AGENTS):
        values |= {f"reference_kl/{agent}": 0.01 * step, f"entropy/{agent}": 0.2 / step}
        values |= {f"clip_fraction/{agent}": 0.001 * i, f"grad_norm/{agent}": 1 / (1 + i)}
        values |= {f"stratum/math/{agent.split('_')[0]}/0": 10 * level}
    return values | {"time/generate": 1.5, "time/env": 0.6, "time/learn": 2.0}


def results(phase: str, temperature: float, seed: int, rate: float, episodes: int) -> list[Result]:
    rng = np.random.default_rng([seed, round(1000 * rate)])
    return [
        Result(
            phase=phase,
            temperature=temperature,
            run_seed=seed,
            index=index,
            task_id=f"eval-{index:05d}",
            topic=TOPICS[index % len(TOPICS)],
            success=bool(rng.random() < rate),
            score=rate,
            rewards={agent: 10 * rate for agent in AGENTS},
        )
        for index in range(episodes)
    ]


def trajectory(index: int, success: bool) -> Trajectory:
    task = Task(f"eval-{index:05d}", f"What is {HOSTILE}?", "exact_match", topic=TOPICS[index % len(TOPICS)])
    actions = []
    for step, agent in enumerate(AGENTS):
        tool = None
        if agent == "coder_0":
            tool = (
                ToolResult("error", 1, "", f"Traceback: {HOSTILE}")
                if not success
                else ToolResult("ok", 0, "14", "")
            )
        actions.append(
            recorded(
                agent,
                step=step,
                messages=({"role": "user", "content": "x"},),
                action=f"{agent} says {HOSTILE}",
                code="print(14)" if tool else None,
                tool=tool,
                verdict=Verdict("ok", 10.0 if success else 1.0, f"because {HOSTILE}"),
                reward=1.0,
                seed=1,
            )
        )
    outcome = Outcome(float(success), success, "ok" if success else "wrong", f"reason {HOSTILE}")
    return Trajectory("MathChat-v0", task, 7 + index, tuple(actions), outcome)
