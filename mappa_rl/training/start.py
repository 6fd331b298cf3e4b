"""What a run starts from: its warm start, played on training tasks to see when it is enough."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from mappa_rl.config import Config
from mappa_rl.config.environment import env_card
from mappa_rl.engines.hf.engine import shared_engines
from mappa_rl.evaluation.evaluate import evaluate
from mappa_rl.models.chat import ChatTokenizer
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.rollout.jobs import training_tasks
from mappa_rl.rollout.policies import Policies
from mappa_rl.rollout.sampling import evaluation_sampling
from mappa_rl.seeds import WARM_START
from mappa_rl.telemetry.progress import Progress
from mappa_rl.training.build import make_worker
from mappa_rl.warmstart.warmstart import warm_start


def starting_model(config: Config, out: Path, progress: Progress) -> Path:
    """The folder with the model and the tokenizer that the run in ``out`` starts from. See ``warm_start``."""

    def played(model: Any, chat: ChatTokenizer) -> float:
        """One model plays the whole team on the last training tasks; the hf engine shares its weights."""
        shared = PolicyMap.from_spec("shared", env_card(config.env.id).team.names)
        models = dict.fromkeys(shared.names, model)
        policies = Policies.from_models(
            shared, models, dict.fromkeys(shared.names, chat), shared_engines(models)
        )
        wanted = config.eval
        lowest = min([*wanted.temperatures, *wanted.calibration_temperatures])
        worker = make_worker(config, policies, "train", progress.watch, judged=False)
        with closing(policies), worker:
            tasks = training_tasks(config, worker.task_ids)[-config.warmstart.check_episodes :]
            return evaluate(worker, tasks, evaluation_sampling(config, lowest), seed=WARM_START).rate

    return warm_start(config, out, progress, played)
