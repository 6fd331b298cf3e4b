"""From a config to the parts of a run: policies with their learners, the reference, the environments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from transformers import AutoTokenizer

from mappa_rl.algos import Algorithm
from mappa_rl.config import Config
from mappa_rl.config.environment import config_on
from mappa_rl.crews.crew import Crew
from mappa_rl.crews.learner import CrewLearner, CrewReference
from mappa_rl.crews.local import LocalCrew
from mappa_rl.crews.ray import RayCrew
from mappa_rl.crews.roster import crews_of
from mappa_rl.engines.hf.engine import shared_engines
from mappa_rl.engines.make import make_engines
from mappa_rl.environments.make import maker
from mappa_rl.learner.forward import Reference
from mappa_rl.learner.learner import Learner
from mappa_rl.learner.parallel import Processes, SharedLearner, SharedReference
from mappa_rl.models.chat import ChatTokenizer, declared_stops
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.rollout.asynchronous import AsyncRollout
from mappa_rl.rollout.lockstep import LockstepRollout
from mappa_rl.rollout.policies import Policies
from mappa_rl.rollout.types import RolloutWorker
from mappa_rl.telemetry.stopwatch import Stopwatch
from mappa_rl.training.crew_actor import CrewActor
from mappa_rl.training.members import Members, load_models, policy_map_of
from mappa_rl.training.room import most_workers
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
    policy_map = policy_map_of(config)
    roster = crews_of(config.placement.crews, policy_map)
    with ExitStack() as started:
        crews: dict[int, Crew] = {}
        for number in sorted({*roster.values()} - {0}):
            own = [policy for policy, crew in roster.items() if crew == number]
            crews[number] = _crew(number, own, config, start)
            started.callback(crews[number].close)
        members = Members.of(config, start, policy_map, policy_map.names)
        for crew in crews.values():
            crew.ready()
        policies = _policies(config, policy_map, start, members.models, plays, members.reading, roster)
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


def _crew(number: int, policies: Sequence[str], config: Config, start: Path) -> Crew:
    if config.cluster.name == "ray":
        return RayCrew(number, policies, config, start, CrewActor)
    return LocalCrew(number, policies, config, start)


def build_policies(config: Config, start: Path) -> Policies:
    """Only the policies of a run, which begin as the model in ``start``."""
    policy_map = policy_map_of(config)
    folders = start_folders(config, policy_map, start)
    models, _ = load_models(config, policy_map, folders, policy_map.names)
    return _policies(config, policy_map, start, models)


def _policies(
    config: Config,
    policy_map: PolicyMap,
    start: Path,
    models: Mapping[str, Any],
    plays: bool = True,
    share: Callable[[str], AbstractContextManager[None]] | None = None,
    roster: Mapping[str, int] | None = None,
) -> Policies:
    """The policies with their engines, which have the weights of ``models`` then.

    ``share``, ``roster``: see ``Policies.around_sync`` and ``Policies.crews``.
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
    if roster is not None:
        policies.crews = roster
    try:
        if plays:
            policies.sync(0, everything=True)
    except BaseException:
        policies.close()  # engines may be processes
        raise
    return policies


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
    make = maker(config, options, in_flight, most_workers(config, in_flight))
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
