"""From a config to the parts of a run: policies with their learners, the reference, the environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from transformers import AutoTokenizer

from mappa_rl.algos import Algorithm, CriticAlgorithm
from mappa_rl.algos.from_config import algorithm_of
from mappa_rl.config import Config
from mappa_rl.config.environment import env_card, make_env
from mappa_rl.engines.hf.engine import shared_engines
from mappa_rl.engines.make import make_engines
from mappa_rl.errors import RunError
from mappa_rl.learner.forward import Reference
from mappa_rl.learner.learner import Learner
from mappa_rl.learner.lr_schedule import Schedule
from mappa_rl.learner.parallel import Processes, SharedLearner, SharedReference
from mappa_rl.models.chat import ChatTokenizer, declared_stops
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.team import TeamModels
from mappa_rl.rollout.asynchronous import AsyncRollout
from mappa_rl.rollout.lockstep import LockstepRollout
from mappa_rl.rollout.policies import Policies
from mappa_rl.rollout.sampling import policy_temperatures
from mappa_rl.telemetry.stopwatch import Stopwatch
from mappa_rl.training.compared import compares
from mappa_rl.warmstart.warmstart import start_folders


@dataclass(slots=True)
class Parts:
    """The policies, their learners, references and algorithm. Close the policies: engines may be processes.

    The engines share the learners' weights, except in an async rollout, where both may work at once.

    ``references``: trainable policy -> the frozen start, at the temperature that the policy is sampled with;
    empty where nothing is compared with it.
    """

    policies: Policies
    learners: Mapping[str, Learner | SharedLearner]
    references: Mapping[str, Reference | SharedReference]
    algorithm: Algorithm
    processes: Processes


def assemble(config: Config, start: Path, *, plays: bool = True) -> Parts:
    """In the leading process: every policy begins with the weights of the model in ``start``.

    The engines start last, when the other processes have joined. With ``plays`` False, no engine with its own
    process is started.
    """
    policy_map = _policy_map(config)
    learning = _Learning.of(config, start, policy_map, policy_map.names)
    learners, processes, loaded = learning.learners, learning.processes, learning.loaded
    share = processes.gathering if processes.count > 1 else None
    policies = _policies(config, policy_map, start, loaded.policies, plays, share)
    if processes.count == 1:
        references = {name: loaded.references[each] for name, each in loaded.compared.items()}
        return Parts(policies, learners, references, learning.algorithm, processes)
    return Parts(
        policies,
        {name: SharedLearner(name, processes, learner) for name, learner in learners.items()},
        {name: SharedReference(each, processes) for name, each in loaded.compared.items()},
        learning.algorithm,
        processes,
    )


def follow(config: Config, start: Path) -> None:
    """In the other processes: train with the leading one until it is done; holds only what is trained."""
    policy_map = _policy_map(config)
    _Learning.of(config, start, policy_map, policy_map.trainable).processes.follow()


def build_policies(config: Config, start: Path) -> Policies:
    """Only the policies of a run, which begin as the model in ``start``."""
    policy_map = _policy_map(config)
    folders = start_folders(config, policy_map, start)
    loaded = _load(config, policy_map, folders, policy_map.names, {}, scattered=False)
    return _policies(config, policy_map, start, loaded.policies)


def _policies(
    config: Config,
    policy_map: PolicyMap,
    start: Path,
    models: Mapping[str, Any],
    plays: bool = True,
    share: Callable[[str], AbstractContextManager[None]] | None = None,
) -> Policies:
    """The policies with their engines, which have the weights of ``models`` then.

    ``share``: see ``Policies.around_sync``.
    """
    folders, chats = start_folders(config, policy_map, start), dict[Path, ChatTokenizer]()
    for name, folder in folders.items():
        if folder not in chats:
            tokenizer, stops = AutoTokenizer.from_pretrained(folder), declared_stops(models[name])
            chats[folder] = ChatTokenizer(tokenizer, more_stop_ids=stops)
    engines = make_engines(config, models, folders, policy_map.lora) if plays else shared_engines(models)
    own = {name: chats[folder] for name, folder in folders.items()}
    policies = Policies.from_models(policy_map, models, own, engines)
    if share is not None:
        policies.around_sync = share
    try:
        if plays:
            policies.sync(0, everything=True)
    except BaseException:
        policies.close()  # engines may be processes
        raise
    return policies


@dataclass(frozen=True, slots=True)
class _Loaded:
    """``policies``: policy -> its model. ``compared``: policy -> the name of its reference."""

    policies: Mapping[str, Any]
    compared: Mapping[str, str]
    references: Mapping[str, Reference]


def _load(
    config: Config,
    policy_map: PolicyMap,
    folders: Mapping[str, Path],
    names: Sequence[str],
    temperatures: Mapping[str, float],
    *,
    scattered: bool,
) -> _Loaded:
    """The models of the policies ``names``, each set of weights once for all that start in the same folder.

    The trainable ones in ``temperatures`` get references at these.
    """
    models, compared, references = dict[str, Any](), dict[str, str](), dict[str, Reference]()
    for number, folder in enumerate(dict.fromkeys(folders.values())):
        mine = [name for name in names if folders[name] == folder]
        learning = [name for name in mine if name in policy_map.trainable and name in temperatures]
        if not mine:
            continue
        team = TeamModels.load(
            config, policy_map, folder, names=mine, reference=bool(learning), scattered=scattered
        )
        models |= team.policies
        for name in learning:
            compared[name] = _reference(number, temperatures[name])
            if compared[name] not in references:
                assert team.start is not None
                scorer = Reference(team.start, config.optim, temperature=temperatures[name])
                references[compared[name]] = scorer
    return _Loaded(models, compared, references)


@dataclass(frozen=True, slots=True)
class _Learning:
    """What every process has."""

    loaded: _Loaded
    learners: Mapping[str, Learner]
    algorithm: Algorithm
    processes: Processes

    @classmethod
    def of(cls, config: Config, start: Path, policy_map: PolicyMap, names: Sequence[str]) -> _Learning:
        """The learners of all trained policies; ``names``: the policies whose models this process needs."""
        policy_map.check_trainable(config.policies.lr, "policies.lr")
        policy_map.check_models(config.policies.models)
        temperatures = policy_temperatures(config, policy_map)
        optim, algorithm = config.optim, algorithm_of(config)
        loaded = _load(
            config,
            policy_map,
            start_folders(config, policy_map, start),
            names,
            temperatures if compares(config) else {},
            scattered=optim.zero_stage == 3,
        )
        updates = config.run.steps * optim.epochs * optim.minibatches
        learners = {
            name: Learner(
                loaded.policies[name],
                optim,
                Schedule.of(optim, config.policies.lr.get(name, optim.lr), updates),
                temperature=temperatures[name],
                critic=isinstance(algorithm, CriticAlgorithm),
                seed=config.run.seed + index,
            )
            for index, name in enumerate(policy_map.trainable)
        }
        processes = Processes({**learners, **loaded.references})
        if processes.count != config.run.processes:
            raise RunError(
                f"run.processes={config.run.processes}, but {processes.count} were started: `mappa-rl train` "
                "starts as many as it needs."
            )
        return cls(loaded, learners, algorithm, processes)


def _policy_map(config: Config) -> PolicyMap:
    team = env_card(config.env.id).team.names  # the card alone: data and sandbox may be elsewhere
    return PolicyMap.from_spec(config.policies.map, team, config.policies.frozen)


def _reference(model: int, temperature: float) -> str:
    """A name that no policy can have; ``model`` numbers the models that policies start as."""
    return f"reference {model} at {temperature}"


def make_worker(
    config: Config,
    policies: Policies,
    split: Literal["train", "eval"],
    watch: Stopwatch | None = None,
    *,
    judged: bool = True,
) -> LockstepRollout | AsyncRollout:
    """Rollouts of one split, with the episodes of ``1 + rollout.staleness`` training steps in flight.

    ``judged`` False: without the coach, whose inspection of files costs as much as the agents' own code,
    unless the agents receive its feedback.
    """
    options = config.env.options(split)
    if not judged and config.env.coach_feedback == "off":
        options |= {"coach": "off"}
    make = partial(make_env, config.env.id, **options)
    rollout = config.rollout
    if config.is_async:
        return AsyncRollout(
            make,
            policies,
            in_flight=rollout.episodes_per_step * (1 + rollout.staleness),
            max_episode_s=rollout.max_episode_s,
            retries=rollout.retries,
            watch=watch,
        )
    return LockstepRollout(
        make,
        policies,
        in_flight=rollout.episodes_per_step,
        lockstep_groups=rollout.lockstep_groups,
        workers=rollout.workers,
        watch=watch,
    )
