"""The start of a run: a model that has imitated a scripted team, in a folder all policies begin with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from mappa_rl.backend import device
from mappa_rl.chat import ChatTokenizer
from mappa_rl.config import Config
from mappa_rl.demonstrations import DemonstrationEpisode, demonstrate, texts
from mappa_rl.errors import RunError
from mappa_rl.learner import Learner
from mappa_rl.naming import name_weights, renamed, task_names
from mappa_rl.pretrained import model_folder
from mappa_rl.progress import Progress
from mappa_rl.schedule import Schedule
from mappa_rl.sft import imitate, token_weights
from mappa_rl.tiny import tiny_qwen3, train_tokenizer
from mappa_rl.types import Sample, Turn

FOLDER = "warmstart"
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
FACTS = "demonstrations.json"
TOKENIZER_EPISODES = 2000
"""Episodes of demonstrations that the tokenizer is trained on."""
CONTEXT_SANDBOX = "calculator"
"""Demonstrations are scripted, so one-expression scripts need no interpreter of their own."""


def warm_start(config: Config, out: Path, progress: Progress) -> Path:
    """Make, or find, the folder with the model and the tokenizer that all policies start from.

    It is written whole or not at all, so that a run killed on the way makes it again from the same seeds.
    A pretrained model without a warm start is used where it lies. Raises RunError when a folder that was
    named holds no model, ConfigError where a pretrained one is not here.
    """
    disable_progress_bar()  # transformers shows one per file; the run has its own
    folder = start_folder(config, out)
    if folder.is_dir():
        return folder
    episodes = _demonstrations(config, progress)
    model, tokenizer = _model(config, episodes)
    if config.warmstart.steps:
        chat = ChatTokenizer(tokenizer)
        progress.phase("warm start", config.warmstart.steps)
        with progress.watch.at("learner"):
            _imitate(model, episodes, chat, config, progress)
    draft = out / f"{FOLDER}.new"
    shutil.rmtree(draft, ignore_errors=True)
    model.save_pretrained(draft)
    tokenizer.save_pretrained(draft)
    (draft / FACTS).write_text(json.dumps(_facts(episodes), indent=2) + "\n", encoding="utf-8")
    draft.rename(folder)
    return folder


def start_folder(config: Config, out: Path) -> Path:
    """Where the run in ``out`` has its warm start, or will have it.

    Raises RunError for a folder without a model, ConfigError for a pretrained model that is not here.
    """
    if not config.warmstart.path:
        pretrained = config.model.kind != "tiny" and not config.warmstart.steps
        return model_folder(config.model.kind) if pretrained else out / FOLDER
    folder = Path(config.warmstart.path)
    if not (folder / "config.json").is_file():
        raise RunError(f"warmstart.path={config.warmstart.path!r} holds no model (no config.json).")
    return folder


def load_policy(folder: Path, dtype: Literal["fp32", "bf16"] = "fp32") -> tuple[Any, Any]:
    """The model and the tokenizer of a plain Hugging Face folder."""
    disable_progress_bar()
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPES[dtype])
    return model.to(device()), AutoTokenizer.from_pretrained(folder)


def demonstrated(episode: DemonstrationEpisode, chat: ChatTokenizer) -> Iterator[Sample]:
    """One episode as training sequences, one per stay, tokenised exactly as a rollout would be."""
    from mappa_rl.packing import merge_turns

    turns: list[Turn] = []
    before: tuple[dict[str, str], ...] = ()
    for step, action in enumerate(episode.actions):
        context = None
        if turns and action.turn > 0:
            last = turns[-1]
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
                stratum=("", action.agent.rsplit("_", 1)[0], action.turn),
            )
        )
        before = action.messages
    yield from merge_turns(turns)


def _demonstrations(config: Config, progress: Progress) -> list[DemonstrationEpisode]:
    progress.phase("demonstrations", config.warmstart.episodes, "episodes")
    options = config.env.options("train")
    options = {k: v for k, v in options.items() if k not in ("coach", "shaping", "coach_feedback")}
    return demonstrate(
        config.env.id,
        episodes=config.warmstart.episodes,
        team=config.warmstart.team,
        seed=config.run.seed,
        env_options={**options, "sandbox": CONTEXT_SANDBOX},
        watch=progress.watch,
        on_done=progress.update,
    )


def _model(config: Config, episodes: list[DemonstrationEpisode]) -> tuple[Any, Any]:
    shape = config.model
    if shape.kind != "tiny":
        return load_policy(model_folder(shape.kind))
    corpus: Iterable[str] = texts(list(islice(episodes, TOKENIZER_EPISODES)))
    tokenizer = train_tokenizer(corpus, shape.vocab_size, shape.tokenizer_style, shape.max_len)
    model = tiny_qwen3(
        tokenizer, hidden=shape.hidden, layers=shape.layers, heads=shape.heads, kv_heads=shape.kv_heads,
        head_dim=shape.head_dim, mlp=shape.mlp, init=shape.init, rope_theta=shape.rope_theta,
        max_len=shape.max_len, seed=config.run.seed,
    )  # fmt: skip
    return model, tokenizer


def _imitate(
    model: Any, episodes: list[DemonstrationEpisode], chat: ChatTokenizer, config: Config, progress: Progress
) -> None:
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
    schedule = Schedule(start.lr, kind="linear", warmup=start.warmup_steps, total=start.steps)
    learner = Learner(
        model, schedule, betas=config.optim.betas, grad_clip=config.optim.grad_clip,
        tokens_per_micro_batch=config.optim.tokens_per_micro_batch, zero_stage=config.optim.zero_stage,
        offload=config.optim.offload, gradient_checkpointing=config.optim.gradient_checkpointing,
    )  # fmt: skip
    imitate(
        learner, samples, steps=start.steps, batch=start.batch, weights=weights, seed=config.run.seed,
        on_step=progress.update,
    )  # fmt: skip


def _facts(episodes: list[DemonstrationEpisode]) -> dict[str, Any]:
    """How well the demonstrated team does, overall and by topic."""
    topics: dict[str, list[bool]] = {}
    for episode in episodes:
        topics.setdefault(episode.topic, []).append(episode.success)
    return {
        "episodes": len(episodes),
        "success": sum(e.success for e in episodes) / max(len(episodes), 1),
        "by_topic": {topic: sum(won) / len(won) for topic, won in sorted(topics.items())},
    }
