"""A rehearsal: a much shorter run with the same settings, whose pace gives the duration of the whole run."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import AutoTokenizer

from mappa_env import team_env
from mappa_env.cards import Card
from mappa_env.scripted import make_team
from mappa_rl.coach.files import asks_a_model
from mappa_rl.commands.ending import GRACE_S
from mappa_rl.commands.fleet import COMMAND, makes_warm_start
from mappa_rl.config import Config
from mappa_rl.config.environment import make_env
from mappa_rl.config.run_folder import write_config
from mappa_rl.errors import RunError
from mappa_rl.evaluation.summary import Summary, read_summary
from mappa_rl.models.chat import ChatTokenizer
from mappa_rl.seeds import numbered
from mappa_rl.warmstart.demonstrations import demonstrate
from mappa_rl.warmstart.warmstart import FOLDER, demonstration_options

EPISODES, STEPS, TRAINING = 400, 20, 3
"""Demonstrations, warm start steps and training steps of the rehearsal, at most."""
SCRIPTED = 40
"""Scripted episodes that give the length of replies and the time of the sandbox and the coach."""
LONG = 90
"""Percentile of the scripted replies' lengths that stands for a trained policy's: a batch waits for the
longest."""
LAST_LINES = 12


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What was measured. ``warm``: the summary of the shortened warm start; ``run``: of the shortened run.

    ``launch_s``: seconds from the start of the process to its first phase and from the last to its end;
    ``judged_s``, ``plain_s``: seconds per scripted episode in the sandbox, with and without the coach; 0 if
    the rehearsal's own replies run code.
    """

    config: Config
    warm: Summary | None
    run: Summary
    launch_s: float
    judged_s: float
    plain_s: float


def rehearse(config: Config, card: Card) -> Rehearsal:
    """Play the shortened run in a temporary folder, in as many processes as the whole one.

    The rubric replaces a model as the coach, so that a rehearsal costs nothing. Policies before their warm
    start would not end a reply, so their replies are cut at the length of the scripted team's.

    Raises RunError with the last lines of a rehearsal that fails.
    """
    with tempfile.TemporaryDirectory(prefix="mappa-rehearsal-") as temporary:
        folder = Path(temporary)
        base = config.with_overrides(_quiet(config, card))
        warm, start = None, config.warmstart.path
        caps, judged_s, plain_s = dict[str, int](), 0.0, 0.0
        launch_s = 0.0
        if makes_warm_start(config):
            assert card.scripted is not None
            short = [f"warmstart.episodes={min(EPISODES, config.warmstart.episodes)}"]
            steps = min(STEPS, config.warmstart.steps)
            short += [f"warmstart.steps={steps}", "warmstart.warmup_steps=0", "warmstart.until=0"]
            short += ["run.processes=1", "run.steps=0", "eval.episodes=1"]
            warm, launch_s = _run(base.with_overrides(short), folder / "warm")
            start = str(folder / "warm" / FOLDER)
            caps = reply_lengths(base, Path(start))
            judged_s, plain_s = (scripted_s(base, card, judged) for judged in (True, False))
        short = [f"warmstart.path={start}"] if start else []
        short += [f"run.steps={min(TRAINING, config.run.steps)}"]
        short += [f"eval.episodes={min(config.eval.episodes, config.rollout.episodes_per_step)}"]
        for agent, length in caps.items():
            longest = min(length, config.rollout.longest(agent))
            short.append(f"rollout.agents.{agent}.max_new_tokens={longest}")
        run, own_s = _run(base.with_overrides(short), folder / "run")
        return Rehearsal(config, warm, run, max(launch_s, own_s), judged_s, plain_s)


def reply_lengths(config: Config, start: Path) -> dict[str, int]:
    """Agent -> length of a long reply of the scripted team, in tokens of the model in ``start``."""
    chat, lengths = ChatTokenizer(AutoTokenizer.from_pretrained(start)), dict[str, list[int]]()
    few = config.warmstart.model_copy(update={"episodes": SCRIPTED})
    for episode in demonstrate(
        config.env.id, few, seed=config.run.seed, env_options=demonstration_options(config)
    ):
        for action in episode.actions:
            lengths.setdefault(action.agent, []).append(len(chat.reply(action.action)))
    return {agent: int(np.percentile(found, LONG)) for agent, found in lengths.items()}


def scripted_s(config: Config, card: Card, judged: bool) -> float:
    """Seconds per episode of the scripted team in the run's sandbox, in as many threads as the run has."""
    options = config.env.options("train") | ({} if judged else {"coach": "off"})
    workers = min(config.rollout.workers, SCRIPTED)
    assert card.scripted is not None
    script, kind = card.scripted, config.warmstart.team

    def play(worker: int) -> float:
        """Play this worker's episodes, after one that warms up; returns when the first of them began."""
        with closing(make_env(config.env.id, **options)) as env:
            episode = team_env(env).episode
            team = make_team(script, kind, style=episode.settings["prompts"])
            began = 0.0
            for index in range(-1, SCRIPTED // workers):
                if index == 0:
                    began = time.monotonic()
                own = numbered(config.run.seed, worker * SCRIPTED + index + 1)
                _, info = env.reset(seed=own)
                team.reset(episode.task, own)
                over = False
                while not over:
                    reply = team.act(info["agent"], episode.turn, episode.seen)
                    _, _, over, _, info = env.step(reply)
            return began

    with ThreadPoolExecutor(workers) as pool:
        began = min(pool.map(play, range(workers)))
    return (time.monotonic() - began) / (SCRIPTED // workers * workers)


def _quiet(config: Config, card: Card) -> list[str]:
    """The settings that switch off records, trackers, other evaluations, and a model as the coach."""
    found = [
        "run.tensorboard=false",
        "run.wandb=''",
        "run.weave=''",
        "run.trace_every=0",
        "run.record_rollouts=false",
        "optim.schedule=constant",  # few steps have no room for another
        "optim.warmup_steps=0",
        "optim.warmup_ratio=0",
        "optim.min_lr_ratio=0",
        "run.checkpoint_every=0",
        f"eval.temperatures=[{config.eval.temperatures[0]}]",
        "eval.calibration_temperatures=[]",
        "eval.group_size=1",
        "eval.every=0",
        "eval.also={}",
        "algo.overlong_penalty=0",  # its buffer may be longer than a rehearsal's replies
        "eval.validation_tasks=0",
        "bias.anchors=0",
        "bias.test_every=0",
    ]
    if asks_a_model(config):
        found.append(f"env.coach={'off' if card.rubric is None else 'rubric'}")
    return found


def _run(config: Config, folder: Path) -> tuple[Summary, float]:
    """Run it in its own process; returns its summary and the seconds outside of all phases."""
    write_config(config, folder)
    started, log = time.monotonic(), folder / "rehearsal.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*COMMAND, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        try:
            code = process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    summary = read_summary(folder)
    if code or summary is None:
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        raise RunError("the rehearsal failed:\n" + "\n".join(f"  {line}" for line in last))
    return summary, time.monotonic() - started - summary.wall_seconds
