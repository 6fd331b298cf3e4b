"""``mappa-rl eval RUN --benchmark ID``: a run's team in evaluations for ``mappa-env leaderboard``."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from mappa_env.data import TaskSet, load_tasks
from mappa_env.evaluation.folder import RESULTS, Evaluation
from mappa_env.evaluation.leaderboard import boards, show
from mappa_env.evaluation.plan import Plan
from mappa_rl.commands.checkpoint import checkpoint_of
from mappa_rl.commands.console import say
from mappa_rl.commands.options import count
from mappa_rl.config import Config
from mappa_rl.config.environment import config_on, env_card, registered
from mappa_rl.errors import ConfigError
from mappa_rl.rollout.sampling import Sampling, evaluation_sampling
from mappa_rl.telemetry.progress import Progress

FOLDER = "benchmarks"
_OWN = ("tasks", "limit", "samples", "seed", "out", "skip_start")
"""Options that mean nothing without ``--benchmark``."""
_DEFAULTS = Plan((), {})
_OPTIONS = ("coach", "coach_feedback", "sandbox", "prompts")
"""Settings in ``env`` that the result depends on."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to play: see the options of ``mappa-rl eval``."""

    asked: Plan
    """Without the model, which ``plan`` adds, and the settings of its environments."""
    start: bool

    @classmethod
    def of(cls, args: argparse.Namespace) -> Wanted | None:
        """As the command line says; None without ``--benchmark``, whose options raise ConfigError then."""
        asked = {name: getattr(args, name) for name in _OWN}
        given = {name: value for name, value in asked.items() if value is not None and value is not False}
        if not args.benchmark:
            if given:
                option = next(iter(given)).replace("_", "-")
                raise ConfigError(f"--{option} needs --benchmark <id>, the environment to play.")
            return None
        start = not given.pop("skip_start", False)
        given.pop("out", None)
        envs = tuple(dict.fromkeys(registered(env) for env in args.benchmark))
        return cls(Plan(envs, {}, **given), start)

    def plan(self, spec: Mapping[str, Any], config: Config) -> Plan:
        """The evaluation of the model ``spec``; ``config`` is that of one of the environments."""
        options = {name: getattr(config.env, name) for name in _OPTIONS}
        return dataclasses.replace(self.asked, models={"*": spec}, options=options)


def add_benchmarks(parser: argparse.ArgumentParser) -> None:
    """Add ``--benchmark`` and the options that go with it."""
    group = parser.add_argument_group(
        "on benchmarks, for 'mappa-env leaderboard': before training and at the checkpoint, without a coach"
    )
    group.add_argument(
        "--benchmark", action="append", metavar="ID|FOLDER", help="environment to play; may be repeated"
    )
    group.add_argument("--tasks", metavar="SPLIT|PATH", help=f"default: {_DEFAULTS.tasks}")
    group.add_argument("--limit", type=count, metavar="N", help="tasks of each environment; default: all")
    group.add_argument(
        "--samples", type=count, metavar="N", help=f"episodes of each task (default: {_DEFAULTS.samples})"
    )
    group.add_argument(
        "--seed", type=int, metavar="N", help=f"draws tasks and actions (default: {_DEFAULTS.seed})"
    )
    group.add_argument("--skip-start", action="store_true", help="only the checkpoint")
    group.add_argument(
        "--out", type=Path, metavar="FOLDER", help=f"of the evaluations; default: RUN/{FOLDER}"
    )


def evaluate_on(wanted: Wanted, config: Config, run: Path, out: Path, checkpoint: str) -> list[Evaluation]:
    """Play the run's team as it was before training and at ``checkpoint``, each into a folder in ``out``.

    A folder that holds a part of the same evaluation already is completed. Raises ConfigError for a benchmark
    whose team is not the run's, EvaluationError for a folder with another evaluation, RunError.
    """
    path, plan = checkpoint_of(config, run, checkpoint), wanted.asked
    from mappa_rl.evaluation.benchmark import Benchmark
    from mappa_rl.training.build import build_policies, make_worker
    from mappa_rl.training.load_weights import load_trained
    from mappa_rl.training.preflight import require
    from mappa_rl.training.start import starting_model

    plan.check_tasks([env_card(env) for env in plan.envs])
    configs = {env: config_on(config, env, plan.tasks, f"--benchmark {env}") for env in plan.envs}
    for each in configs.values():
        require(each, out, "evaluate")
    sampling = evaluation_sampling(config, config.eval.temperatures[0])
    if plan.samples > 1 and sampling.temperature == 0:
        raise ConfigError(
            f"--samples {plan.samples} at temperature 0 plays the same episode again: set "
            "eval.temperatures=[0.6], or another one above 0."
        )
    name, step = run.resolve().name, int(path.name.removeprefix("step-"))
    found = []
    with Progress(f"{name} on {', '.join(plan.envs)}") as progress:
        start = starting_model(config, run, progress)
        policies = build_policies(config, start)
        with closing(policies):
            stages = [("before training", start, "start")] if wanted.start else []
            for version, weights, suffix in [*stages, (f"step {step}", path, f"step-{step}")]:
                if weights == path:
                    load_trained(policies, path)
                spec = {
                    "name": f"{name}, {version}",
                    "weights": _fingerprint(weights),
                    "engine": config.engine.name,
                    "sampling": _plain(sampling),
                }
                benchmark = Benchmark(
                    wanted.plan(spec, configs[plan.envs[0]]),
                    lambda env: make_worker(configs[env], policies, "eval", progress.watch, judged=False),
                    lambda env: _tasks(configs[env]),
                    sampling,
                    config.rollout.episodes_per_step * (1 + config.rollout.staleness),
                    version,
                    progress,
                )
                found.append(benchmark.play(out / f"{name}-{suffix}"))
    return found


def report(evaluations: list[Evaluation], out: Path, console: Console) -> None:
    """Print the tables, and where the figures are."""
    show(boards(evaluations))
    for each in evaluations:
        say(console, f"figures: {out / each.name / RESULTS}")
    say(console, str(out))


def _tasks(config: Config) -> TaskSet:
    """Those that the environment of ``config`` evaluates on."""
    card, chosen = env_card(config.env.id), config.env
    return load_tasks(card.loader, chosen.tasks_eval, {**card.loader_options, **chosen.task_options})


def _fingerprint(folder: Path) -> str:
    """Of the weights in a folder, so that an evaluation never resumes others."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.safetensors")):
        digest.update(path.relative_to(folder).as_posix().encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def _plain(sampling: Sampling) -> dict[str, Any]:
    agents = {agent: own.model_dump() for agent, own in sampling.agents.items()}
    return dataclasses.asdict(dataclasses.replace(sampling, agents={})) | {"agents": agents}
