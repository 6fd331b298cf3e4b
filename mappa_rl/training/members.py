"""What the processes of a crew train together: models, learners and references of its policies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mappa_rl.algos import Algorithm, CriticAlgorithm
from mappa_rl.algos.from_config import algorithm_of
from mappa_rl.config import Config
from mappa_rl.config.environment import env_card
from mappa_rl.crews.learner import UPDATES, WEIGHTS
from mappa_rl.crews.roster import crews_of
from mappa_rl.crews.weights import packed
from mappa_rl.errors import RunError
from mappa_rl.learner.forward import Reference
from mappa_rl.learner.learner import Learner
from mappa_rl.learner.lr_schedule import Schedule
from mappa_rl.learner.parallel import Processes, SharedLearner, SharedReference
from mappa_rl.models.policy_map import PolicyMap
from mappa_rl.models.team import TeamModels
from mappa_rl.rollout.sampling import policy_temperatures
from mappa_rl.training.compared import compares
from mappa_rl.warmstart.warmstart import start_folders


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
        models, starts = load_models(
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

    def answer(self, name: str, method: str, options: Mapping[str, Any]) -> Any:
        """What a call of ``Crew`` to the learner or reference ``name`` returns or raises. In process 0."""
        if method == UPDATES:
            return self.learners[name].updates
        if method == WEIGHTS:
            with self.reading(name):
                return packed(self.learners[name].model)
        member = self.learners.get(name) or self.references[name]
        return getattr(member, method)(**options)


def follow(config: Config, start: Path) -> None:
    """In the other processes: train with the leading one until it is done; holds only what is trained."""
    crew_members(config, start, 0).processes.follow()


def crew_members(config: Config, start: Path, crew: int) -> Members:
    """What a process of the crew with this number trains, and holds only for that. All of them call it."""
    policy_map = policy_map_of(config)
    roster = crews_of(config.placement.crews, policy_map)
    return Members.of(
        config, start, policy_map, [name for name, number in roster.items() if number == crew], crew
    )


def load_models(
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


def policy_map_of(config: Config) -> PolicyMap:
    """Which policy plays which agent of the run's environment."""
    team = env_card(config.env.id).team.names  # the card alone: data and sandbox may be elsewhere
    return PolicyMap.from_spec(config.policies.map, team, config.policies.frozen)


def _compared(
    folders: Mapping[str, Path], policy_map: PolicyMap, temperatures: Mapping[str, float]
) -> dict[str, str]:
    """Trained policy -> the name of its reference: one for each start and temperature. No policy has it."""
    starts = list(dict.fromkeys(folders.values()))
    return {
        name: f"reference {starts.index(folders[name])} at {temperatures[name]}"
        for name in policy_map.trainable
    }
