"""From a config to the parts of a run: policies with their learners, the reference, the environments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from transformers import AutoTokenizer

from mappa_rl.algos import Algorithm, CriticAlgorithm
from mappa_rl.algos.from_config import algorithm_of
from mappa_rl.config import Config
from mappa_rl.config.environment import config_on, env_card
from mappa_rl.crews.crew import Crew
from mappa_rl.crews.learner import CrewLearner, CrewReference
from mappa_rl.crews.roster import crews_of
from mappa_rl.engines.hf.engine import shared_engines
from mappa_rl.engines.make import make_engines
from mappa_rl.environments.make import maker
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
from mappa_rl.rollout.types import RolloutWorker
from mappa_rl.telemetry.stopwatch import Stopwatch
from mappa_rl.training.compared import compares
from mappa_rl.warmstart.warmstart import start_folders

AnyLearner = Learner | SharedLearner | CrewLearner
AnyReference = Reference | SharedReference | CrewReference


@dataclass(slots=True)
class Parts:
    """The policies, their learners, references and algorithm. Close the policies: engines may be processes.

    The engines share the learners' weights, except in an async rollout, where both may work at once. Inside
    its block the processes of all crews are ready; they are released at its end.

    ``references``: trainable policy -> the frozen start, at the temperature that the policy is sampled with;
    empty where nothing is compared with it.
    """

    policies: Policies
    learners: Mapping[str, AnyLearner]
    references: Mapping[str, AnyReference]
    algorithm: Algorithm
    processes: Processes
    crews: Sequence[Crew] = ()

    @property
    def idle(self) -> bool:
        """Whether no call of a learner is under way in any process."""
        return self.processes.idle and all(crew.idle for crew in self.crews)

    def __enter__(self) -> Parts:
        self.processes.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            self.processes.__exit__(*error)
        finally:
            for crew in self.crews:
                crew.close()


def assemble(config: Config, start: Path, *, plays: bool = True) -> Parts:
    """In the leading process: every policy begins with the weights of the model in ``start``.

    The engines start last, when the other processes have joined. With ``plays`` False, no engine with its own
    process is started.
    """
    policy_map = _policy_map(config)
    roster = crews_of(config.placement.crews, policy_map)
    with ExitStack() as started:
        crews: dict[int, Crew] = {}
        for number in sorted({*roster.values()} - {0}):
            crews[number] = Crew(number, [p for p, own in roster.items() if own == number], config, start)
            started.callback(crews[number].close)
        members = Members.of(config, start, policy_map, policy_map.names)
        for crew in crews.values():
            crew.ready()
        policies = _policies(config, policy_map, start, members.models, plays, members.reading)
        started.pop_all()
    learners, references = dict[str, AnyLearner](), dict[str, AnyReference]()
    for name, number in roster.items():
        if number:
            learners[name] = CrewLearner(name, crews[number], members.models[name])
        else:
            learners[name] = members.learners[name]
        if (compared := members.compared.get(name)) is not None:
            references[name] = (
                CrewReference(compared, crews[number]) if number else members.references[compared]
            )
    return Parts(policies, learners, references, members.algorithm, members.processes, list(crews.values()))


def follow(config: Config, start: Path) -> None:
    """In the other processes: train with the leading one until it is done; holds only what is trained."""
    crew_members(config, start, 0).processes.follow()


def crew_members(config: Config, start: Path, crew: int) -> Members:
    """What a process of the crew with this number trains, and holds only for that. All of them call it."""
    policy_map = _policy_map(config)
    roster = crews_of(config.placement.crews, policy_map)
    return Members.of(
        config, start, policy_map, [name for name, number in roster.items() if number == crew], crew
    )


def build_policies(config: Config, start: Path) -> Policies:
    """Only the policies of a run, which begin as the model in ``start``."""
    policy_map = _policy_map(config)
    folders = start_folders(config, policy_map, start)
    models, _ = _load(config, policy_map, folders, policy_map.names)
    return _policies(config, policy_map, start, models)


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


def _load(
    config: Config,
    policy_map: PolicyMap,
    folders: Mapping[str, Path],
    names: Sequence[str],
    compared: Mapping[str, str] | None = None,
    scattered: Collection[str] = (),
) -> tuple[dict[str, Any], dict[Path, Any]]:
    """The models of the policies ``names``, each set of weights once for all that start in the same folder.

    Also the frozen start in each folder of a policy that is ``compared`` with it. ``scattered``: see
    ``TeamModels.load``.
    """
    models, starts = dict[str, Any](), dict[Path, Any]()
    for folder in dict.fromkeys(folders.values()):
        mine = [name for name in names if folders[name] == folder]
        if not mine:
            continue
        reference = any(name in (compared or {}) for name in mine)
        team = TeamModels.load(
            config, policy_map, folder, names=mine, reference=reference, scattered=scattered
        )
        models |= team.policies
        if reference:
            starts[folder] = team.start
    return models, starts


@dataclass(frozen=True, slots=True)
class Members:
    """What the processes of a crew train together.

    ``learners``: policy -> its learner, of this crew's policies. ``compared``: trained policy of any crew ->
    the name of its reference; empty where nothing is compared. ``references``: those of this crew, by name.
    ``models``: policy -> its model, of all that this process holds.
    """

    models: Mapping[str, Any]
    learners: Mapping[str, Learner | SharedLearner]
    compared: Mapping[str, str]
    references: Mapping[str, Reference | SharedReference]
    algorithm: Algorithm
    processes: Processes

    @classmethod
    def of(
        cls, config: Config, start: Path, policy_map: PolicyMap, names: Sequence[str], crew: int = 0
    ) -> Members:
        """The members of a crew; ``names``: the policies whose models this process needs."""
        policy_map.check_trainable(config.policies.lr, "policies.lr")
        policy_map.check_models(config.policies.models)
        temperatures = policy_temperatures(config, policy_map)
        optim, algorithm = config.optim, algorithm_of(config)
        folders = start_folders(config, policy_map, start)
        roster = crews_of(config.placement.crews, policy_map)
        mine = [name for name in policy_map.trainable if roster[name] == crew]
        compared = _compared(folders, policy_map, temperatures) if compares(config) else {}
        models, starts = _load(
            config,
            policy_map,
            folders,
            names,
            {name: reference for name, reference in compared.items() if name in mine},
            mine if optim.zero_stage == 3 else (),
        )
        references = {
            compared[name]: Reference(starts[folders[name]], optim, temperature=temperatures[name])
            for name in mine
            if name in compared
        }
        updates = config.run.steps * optim.epochs * optim.minibatches
        learners = {
            name: Learner(
                models[name],
                optim,
                Schedule.of(optim, config.policies.lr.get(name, optim.lr), updates),
                temperature=temperatures[name],
                critic=isinstance(algorithm, CriticAlgorithm),
                seed=config.run.seed + policy_map.trainable.index(name),
            )
            for name in mine
        }
        processes = Processes({**learners, **references})
        if processes.count != config.run.processes:
            raise RunError(
                f"run.processes={config.run.processes}, but {processes.count} were started: `mappa-rl train` "
                "starts as many as it needs."
            )
        if processes.count == 1:
            return cls(models, learners, compared, references, algorithm, processes)
        return cls(
            models,
            {name: SharedLearner(name, processes, learner) for name, learner in learners.items()},
            compared,
            {name: SharedReference(name, processes) for name in references},
            algorithm,
            processes,
        )

    def reading(self, policy: str) -> AbstractContextManager[None]:
        """A block in which the weights of ``policy`` are whole in the first process, which enters it."""
        if self.processes.count > 1 and policy in self.learners:
            return self.processes.gathering(policy)
        return nullcontext()


def _compared(
    folders: Mapping[str, Path], policy_map: PolicyMap, temperatures: Mapping[str, float]
) -> dict[str, str]:
    """Trained policy -> the name of its reference: one for each start and temperature. No policy has it."""
    starts = list(dict.fromkeys(folders.values()))
    return {
        name: f"reference {starts.index(folders[name])} at {temperatures[name]}"
        for name in policy_map.trainable
    }


def _policy_map(config: Config) -> PolicyMap:
    team = env_card(config.env.id).team.names  # the card alone: data and sandbox may be elsewhere
    return PolicyMap.from_spec(config.policies.map, team, config.policies.frozen)


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
    rollout = config.rollout
    in_flight = rollout.episodes_per_step * (1 + (rollout.staleness if config.is_async else 0))
    make = maker(config, options, in_flight)
    if config.is_async:
        return AsyncRollout(
            make,
            policies,
            in_flight=in_flight,
            max_episode_s=rollout.max_episode_s,
            retries=rollout.retries,
            watch=watch,
        )
    return LockstepRollout(
        make,
        policies,
        in_flight=in_flight,
        lockstep_groups=rollout.lockstep_groups,
        workers=rollout.workers,
        watch=watch,
    )


@contextmanager
def workers_elsewhere(
    config: Config, policies: Policies, watch: Stopwatch | None = None
) -> Iterator[dict[str, RolloutWorker]]:
    """Environment of ``eval.also`` -> rollouts on its eval split, without the coach."""
    found: dict[str, RolloutWorker] = {}
    with ExitStack() as stack:
        for env in config.eval.also:
            worker = make_worker(config_on(config, env), policies, "eval", watch, judged=False)
            stack.enter_context(worker)
            found[env] = worker
        yield found
