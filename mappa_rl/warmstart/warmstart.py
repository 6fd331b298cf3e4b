"""The start of a run: a folder with a model that has imitated a scripted team; all policies begin with it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from mappa_env.types import role_of
from mappa_rl.config import Config
from mappa_rl.errors import RunError
from mappa_rl.learner.learner import Learner
from mappa_rl.learner.lr_schedule import Schedule
from mappa_rl.models.chat import ChatTokenizer, declared_stops
from mappa_rl.models.loading import load_model
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.pretrained import model_folder
from mappa_rl.models.tiny import tiny_qwen3, train_tokenizer
from mappa_rl.telemetry.progress import Progress
from mappa_rl.types import Sample, StepStats, Turn
from mappa_rl.warmstart.copied_names import name_weights, renamed, task_names
from mappa_rl.warmstart.demonstrations import DemonstrationEpisode, demonstrate, texts
from mappa_rl.warmstart.imitation import imitate, token_weights
from mappa_rl.warmstart.unfinished import Unfinished, discard, updates_in

FOLDER = "warmstart"
FACTS = "demonstrations.json"
TOKENIZER_EPISODES = 2000
"""Demonstrated episodes to train the tokenizer on."""
CONTEXT_SANDBOX = "calculator"
"""The sandbox of demonstrations: their code is scripted, so plain arithmetic needs no process of its own."""
Played = Callable[[Any, ChatTokenizer], float]
"""Success rate (0-1) on training tasks of a model that plays all agents."""


def warm_start(config: Config, out: Path, progress: Progress, played: Played) -> Path:
    """Find or create the folder with the model and the tokenizer that all policies start from.

    It is written whole or not at all. A run that was stopped meanwhile continues it (see ``Unfinished``), and
    comes to the same weights. A pretrained model without a warm start is used from its own folder. Imitation
    ends early when ``played`` reaches ``warmstart.until``.

    Raises:
        RunError: ``warmstart.path`` does not contain a model.
        ConfigError: The pretrained model is not on this machine.
    """
    disable_progress_bar()  # type: ignore[no-untyped-call]  # the run has its own progress display
    folder = start_folder(config, out)
    if folder.is_dir():
        discard(out)
        return folder
    episodes = _demonstrations(config, progress)
    model, tokenizer = _model(config, episodes)
    checks: dict[int, float] = {}
    if config.warmstart.steps:
        chat = ChatTokenizer(tokenizer, more_stop_ids=declared_stops(model))
        progress.phase("warm start", config.warmstart.steps, done=updates_in(out))
        with progress.watch.at("learner"):
            checks = _imitate(model, episodes, chat, config, out, progress, played)
    draft = out / f"{FOLDER}.new"
    shutil.rmtree(draft, ignore_errors=True)
    model.save_pretrained(draft)
    tokenizer.save_pretrained(draft)
    facts = _facts(episodes) | {"checks": sorted(checks.items())}
    (draft / FACTS).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    draft.rename(folder)
    discard(out)
    return folder


def start_folder(config: Config, out: Path) -> Path:
    """The folder where the run in ``out`` has its warm start, or will have it.

    Raises RunError if ``warmstart.path`` does not contain a model, ConfigError if the pretrained model is not
    on this machine.
    """
    if not config.warmstart.path:
        pretrained = config.model.kind != "tiny" and not config.warmstart.steps
        return model_folder(config.model.kind) if pretrained else out / FOLDER
    folder = Path(config.warmstart.path)
    if not (folder / "config.json").is_file():
        raise RunError(
            f"warmstart.path={config.warmstart.path!r} is not a model folder: config.json is missing."
        )
    return folder


def start_folders(config: Config, policies: PolicyMap, start: Path) -> dict[str, Path]:
    """Policy -> the folder of its model and tokenizer: ``start``, or what ``policies.models`` names for it.

    Raises ConfigError if such a model is not on this machine.
    """
    own = {name: model_folder(kind) for name, kind in config.policies.models.items()}
    return {name: own.get(name, start) for name in policies.names}


def demonstration_options(config: Config) -> dict[str, Any]:
    """The keywords of ``gym.make`` for demonstrations: without a coach, and with the cheapest sandbox."""
    options = config.env.options("train")
    options = {k: v for k, v in options.items() if k not in ("coach", "shaping", "coach_feedback")}
    return {**options, "sandbox": CONTEXT_SANDBOX}


def demonstrated(episode: DemonstrationEpisode, chat: ChatTokenizer) -> Iterator[Sample]:
    """One episode as training sequences, one per agent, with the token ids that a rollout would have."""
    from mappa_rl.learner.samples import merge_turns

    turns: list[Turn] = []
    newest: dict[str, tuple[Turn, tuple[dict[str, str], ...]]] = {}
    for step, action in enumerate(episode.actions):
        context = None
        if action.agent in newest:
            last, before = newest[action.agent]
            context = chat.extend(last.context_ids, last.action_ids, before, action.messages)
        if context is None:
            context = chat.open(action.messages)
        ids = chat.reply(action.action)
        turns.append(
            Turn(
                agent=action.agent,
                policy=action.agent,
                step=step,
                turn=action.turn,
                context_ids=context,
                action_ids=ids,
                logprobs=[0.0] * len(ids),
                stopped="eos",
                reward=0.0,
                valid=True,
                stratum=("", role_of(action.agent), action.turn),
            )
        )
        newest[action.agent] = turns[-1], action.messages
    yield from merge_turns(turns)


def _demonstrations(config: Config, progress: Progress) -> list[DemonstrationEpisode]:
    progress.phase("demonstrations", config.warmstart.episodes, "episodes")
    return demonstrate(
        config.env.id,
        config.warmstart,
        seed=config.run.seed,
        env_options=demonstration_options(config),
        watch=progress.watch,
        on_done=progress.update,
    )


def _model(config: Config, episodes: list[DemonstrationEpisode]) -> tuple[Any, Any]:
    if config.model.kind != "tiny":
        folder = model_folder(config.model.kind)
        return load_model(folder, "fp32"), AutoTokenizer.from_pretrained(folder)
    corpus: Iterable[str] = texts(list(islice(episodes, TOKENIZER_EPISODES)))
    tokenizer = train_tokenizer(corpus, config.model)
    model = tiny_qwen3(tokenizer, config.model, seed=config.run.seed)
    return model, tokenizer


def _imitate(
    model: Any,
    episodes: list[DemonstrationEpisode],
    chat: ChatTokenizer,
    config: Config,
    out: Path,
    progress: Progress,
    played: Played,
) -> dict[int, float]:
    """Train ``model``; returns step -> success rate where that was measured."""
    start = config.warmstart
    samples, weights = [], []
    names = task_names(config.env.id, config.env.options("train")) if start.renamed else []
    for episode in (*episodes, *renamed(episodes, start.renamed, names, config.run.seed)):
        actions = None
        if start.name_weight != 1:
            steps = enumerate(episode.actions)
            actions = {step: name_weights(action, chat, start.name_weight) for step, action in steps}
        for sample in demonstrated(episode, chat):
            samples.append(sample)
            weights.append(token_weights(sample, start.prompt_weight, actions))
    schedule = Schedule(start.lr, "linear", warmup=start.warmup_steps, total=start.steps, floor=0.0)
    fp32 = {"weight_decay": 0.0, "attention": "auto", "dtype": "fp32"}  # as _model loads it
    optim = config.optim.model_copy(update=fp32)
    learner = Learner(model, optim, schedule, temperature=1.0, critic=False, seed=0)
    checks: dict[int, float] = {}
    with Unfinished(out, learner, checks) as unfinished:

        def updated(step: int, stats: StepStats) -> None:
            progress.update(step, stats)
            unfinished.updated()

        def enough(step: int) -> bool:
            if step not in checks:
                with unfinished.between():
                    checks[step] = played(model, chat)
                progress.note(f"warm start, step {step}: success {checks[step]:.1%} on training tasks")
            return checks[step] >= start.until

        asked = enough if start.until else None
        imitate(learner, samples, weights, start, seed=config.run.seed, on_step=updated, enough=asked)
    return checks


def _facts(episodes: list[DemonstrationEpisode]) -> dict[str, Any]:
    """The demonstrated team's success rate, overall and by topic."""
    topics: dict[str, list[bool]] = {}
    for episode in episodes:
        topics.setdefault(episode.topic, []).append(episode.success)
    return {
        "episodes": len(episodes),
        "success": sum(e.success for e in episodes) / max(len(episodes), 1),
        "by_topic": {topic: sum(won) / len(won) for topic, won in sorted(topics.items())},
    }
