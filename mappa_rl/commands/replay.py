"""``mappa-rl replay``: the learner alone, on recorded rollouts. No environment, sandbox or coach."""

from __future__ import annotations

import time
from pathlib import Path

from mappa_rl.config import Config
from mappa_rl.errors import RunError
from mappa_rl.launch import write_config
from mappa_rl.progress import Progress
from mappa_rl.records import read_step, recorded_steps

ALLOWED = ("algo.", "optim.", "sft.", "run.")
"""What a replay may change: the episodes are what they are."""


def replay(config: Config, source: Path, out: Path) -> Path:
    """Train on the steps that ``source`` has recorded, from its start, and leave metrics and checkpoints in
    ``out``.

    With the settings of the run that recorded them, weights and the learner's metrics are that run's, bit for
    bit. Steps beyond ``run.steps`` are left alone. Raises RunError where start or rollouts are missing.
    """
    import torch

    from mappa_rl.algorithm import algorithm_of
    from mappa_rl.assembly import assemble
    from mappa_rl.checkpoint import Checkpoints
    from mappa_rl.rollout import Collected
    from mappa_rl.sinks import sinks_of
    from mappa_rl.statistics import rollout_stats
    from mappa_rl.step import learn

    paths = recorded_steps(source)[: config.run.steps]
    algorithm_of(config)
    start = start_of(config, source)
    begun = config.warmstart.model_copy(update={"path": str(start.resolve())})
    config = write_config(config.model_copy(update={"warmstart": begun}), out)
    torch.set_num_threads(config.run.torch_threads or torch.get_num_threads())
    with Progress(f"replay of {source}") as progress:
        parts = assemble(config, start, plays=False)
        tokenizers = {name: policy.chat.tokenizer for name, policy in parts.policies.items()}
        checkpoints = Checkpoints(out / "checkpoints", keep=config.run.keep)
        progress.phase("replay", len(paths), "steps")
        with sinks_of(config, out, progress.note) as metrics:
            for path in paths:
                started = time.perf_counter()
                recorded = read_step(path)
                step = recorded.step
                collected = Collected(list(recorded.rollouts), [], recorded.tokens)
                values = rollout_stats(collected)
                with progress.watch.at("learner"):
                    values |= learn(config, parts, recorded)
                values["time/step"] = time.perf_counter() - started
                metrics.log(step, values)
                progress.update(step, values)
                every = config.run.checkpoint_every
                if path is paths[-1] or (every and step % every == 0):
                    state = {"step": step, "bias": None, "algorithm": parts.algorithm.state()}
                    checkpoints.save(step, parts.learners, state, tokenizers=tokenizers)
    return out


def start_of(config: Config, source: Path) -> Path:
    """The folder with the weights that ``source`` began with. Raises RunError, ConfigError."""
    from mappa_rl.pretrained import model_folder
    from mappa_rl.warmstart import FOLDER

    if config.warmstart.path:
        start = Path(config.warmstart.path)
    elif config.model.kind != "tiny" and not config.warmstart.steps:
        return model_folder(config.model.kind)
    else:
        start = source / FOLDER
    if not (start / "config.json").is_file():
        raise RunError(f"{start} holds no model: a replay needs the weights that its run began with.")
    return start
