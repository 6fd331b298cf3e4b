"""Which weights play which agent, and the border that every training sequence must pass."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mappa_env.errors import nearest
from mappa_rl.chat import ChatTokenizer
from mappa_rl.engines.base import Engine
from mappa_rl.errors import ContextError, PolicyError
from mappa_rl.packing import merge_turns
from mappa_rl.types import Rollout, Sample, Turn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from mappa_rl.lora import LoraShape

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class PolicyMap:
    """``assignment``: agent -> policy, in the team's order. ``frozen``: agents that play untrained.

    ``lora``: policies are adapters on one frozen base.
    """

    assignment: Mapping[str, str]
    frozen: frozenset[str] = frozenset()
    lora: bool = False

    @classmethod
    def from_spec(
        cls, spec: str | Mapping[str, str], agents: Sequence[str], frozen: Sequence[str] = ()
    ) -> PolicyMap:
        """Read ``"separate"`` (one policy per agent, of its name), ``"shared"`` or ``{agent: policy}``.

        ``"lora"`` is ``"separate"`` with adapters for policies.
        ``frozen`` names policies or single agents. Raises ``PolicyError`` with the nearest known name.
        """
        if not agents:
            raise PolicyError("The team has no agents, so there is nothing to map to policies.")
        if isinstance(spec, Mapping):
            assignment = _explicit(spec, agents)
        elif spec in ("separate", "lora"):
            assignment = {agent: agent for agent in agents}
        elif spec == "shared":
            assignment = {agent: "shared" for agent in agents}
        else:
            raise PolicyError(
                f"Policy map {spec!r} is not offered.{nearest(spec, ('separate', 'shared', 'lora'))} "
                "Use 'separate', 'shared', 'lora' or a mapping from every agent to a policy name."
            )
        held: set[str] = set()
        for name in frozen:
            members = {agent for agent, policy in assignment.items() if name in (agent, policy)}
            if not members:
                known = [*assignment, *assignment.values()]
                raise PolicyError(f"Cannot freeze {name!r}: no such policy or agent.{nearest(name, known)}")
            held |= members
        return cls(assignment, frozenset(held), spec == "lora")

    def of(self, agent: str) -> str:
        """The policy that plays ``agent``. Raises ``PolicyError`` for an agent that is not on the team."""
        try:
            return self.assignment[agent]
        except KeyError:
            team, hint = list(self.assignment), nearest(agent, self.assignment)
            raise PolicyError(f"Agent {agent!r} is not on the team {team}.{hint}") from None

    def check_trainable(self, names: Iterable[str], key: str) -> None:
        """Raises ``PolicyError`` for a name under ``key`` that is no trained policy."""
        known = list(self.trainable)
        for name in names:
            if name not in known:
                raise PolicyError(f"{key} names {name!r}, trained are {known}.{nearest(name, known)}")

    @property
    def names(self) -> tuple[str, ...]:
        """All policies, in the order of the first agent that each plays."""
        return tuple(dict.fromkeys(self.assignment.values()))

    @property
    def trainable(self) -> tuple[str, ...]:
        """Policies that at least one agent trains."""
        return tuple(dict.fromkeys(p for agent, p in self.assignment.items() if agent not in self.frozen))


def _explicit(spec: Mapping[str, str], agents: Sequence[str]) -> dict[str, str]:
    for agent, policy in spec.items():
        if agent not in agents:
            raise PolicyError(
                f"The policy map names agent {agent!r}, the team is {list(agents)}.{nearest(agent, agents)}"
            )
        if not _NAME.fullmatch(policy):
            raise PolicyError(f"Policy name {policy!r} must be letters, digits, '_', '-' and '.' only.")
    missing = [agent for agent in agents if agent not in spec]
    if missing:
        raise PolicyError(f"The policy map leaves out {missing}; name a policy for every agent of the team.")
    return {agent: spec[agent] for agent in agents}


@dataclass(slots=True)
class Policy:
    """Weights with what it takes to play them. ``engine`` may share ``model``."""

    name: str
    model: PreTrainedModel
    chat: ChatTokenizer
    engine: Engine


class Policies(Mapping[str, Policy]):
    """The policies of a team, by name. Raises ``PolicyError`` unless they are exactly those of the map."""

    def __init__(self, policy_map: PolicyMap, members: Sequence[Policy]) -> None:
        self.map = policy_map
        self._members = {member.name: member for member in members}
        self._slept = False
        self.before_sync: Callable[[str], None] | None = None
        """Called with a policy's name before its weights are read, where processes share them."""
        if set(self._members) != set(policy_map.names) or len(members) != len(self._members):
            raise PolicyError(
                f"The map needs the policies {sorted(policy_map.names)}, "
                f"found {sorted(member.name for member in members)}."
            )

    @classmethod
    def from_model(
        cls,
        policy_map: PolicyMap,
        model: PreTrainedModel,
        chat: ChatTokenizer,
        max_batch: int = 128,
        *,
        lora: LoraShape | None = None,
        seed: int = 0,
        shared: bool = True,
        make_engines: Callable[[Mapping[str, Any]], Mapping[str, Engine]] | None = None,
    ) -> Policies:
        """Start every policy as its own copy of ``model``, with an engine that shares the copy's weights.

        With ``policy_map.lora`` as an adapter of shape ``lora`` on ``model`` itself, which is frozen. Not
        ``shared``: engines have copies of what is trained, to generate while it is being trained.
        ``make_engines`` gives the policies in a mapping of their models other engines.
        """
        from mappa_rl.engines.hf import HFEngine  # torch only where it is used

        models: dict[str, Any]
        if policy_map.lora:
            from mappa_rl.lora import adapted

            if lora is None:
                raise PolicyError("This map needs the shape of its adapters: pass lora=LoraShape(...).")
            models = {name: adapted(model, lora, seed + k) for k, name in enumerate(policy_map.names)}
        else:
            models = {name: copy.deepcopy(model) for name in policy_map.names}
        if make_engines is None:
            played = models if shared else {name: _twin(trained) for name, trained in models.items()}
            engines: Mapping[str, Engine] = {name: HFEngine(m, max_batch) for name, m in played.items()}
        else:
            engines = make_engines(models)
        return cls(policy_map, [Policy(name, m, chat, engines[name]) for name, m in models.items()])

    def sync(self, version: int | None = None) -> dict[str, float]:
        """Give the engines the weights of the policies that are trained, and of all after ``wake``.

        Returns ``sync/seconds``, ``sync/bytes`` and ``sync/transfers``, where anything had to be sent.
        """
        total = None
        for name in self.map.names if self._slept else self.map.trainable:
            policy = self._members[name]
            if self.before_sync is not None and name in self.map.trainable:
                self.before_sync(name)
            policy.engine.load_weights(policy.model, version)
            stats = policy.engine.last_sync
            if stats is not None:
                total = stats if total is None else total + stats
        self._slept = False
        if total is None:
            return {}
        return {
            "sync/seconds": total.seconds,
            "sync/bytes": float(total.bytes),
            "sync/transfers": float(total.transfers),
        }

    def sleep(self) -> None:
        """Have the engines give their accelerators' memory back until ``wake``."""
        for policy in self._members.values():
            policy.engine.sleep()

    def wake(self) -> None:
        """Have the engines ready for ``sync``, which all of them need then."""
        for policy in self._members.values():
            policy.engine.wake()
        self._slept = True

    def close(self) -> None:
        """End the engines."""
        for policy in self._members.values():
            policy.engine.close()

    def of(self, agent: str) -> str:
        """Name of the policy that plays ``agent``."""
        return self.map.of(agent)

    def __getitem__(self, name: str) -> Policy:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.map.names)

    def __len__(self) -> int:
        return len(self._members)

    def samples(self, rollouts: Sequence[Rollout]) -> dict[str, list[Sample]]:
        """Training sequences per trainable policy, in the order of the rollouts.

        Turns of frozen agents are left out. Raises ``ContextError`` unless every other turn is in exactly one
        sequence with exactly the ids that the engine consumed and sampled.
        """
        out: dict[str, list[Sample]] = {name: [] for name in self.map.trainable}
        for episode, rollout in enumerate(rollouts):
            turns = [turn for turn in rollout.turns if turn.agent not in self.map.frozen]
            for turn in turns:
                if turn.policy != self.of(turn.agent):
                    raise ContextError(
                        f"Step {turn.step} of {rollout.task_id!r} was sampled from policy "
                        f"{turn.policy!r}, but {turn.agent} is played by {self.of(turn.agent)!r}: "
                        "another run's rollout?"
                    )
            samples = merge_turns(turns, rollout.task_id, episode)
            check_fidelity(turns, samples)
            for sample in samples:
                out[sample.policy].append(sample)
        return out


def _twin(module: Any) -> Any:
    """A copy; what is frozen is shared."""
    frozen = [tensor for tensor in module.parameters() if not tensor.requires_grad]
    return copy.deepcopy(module, {id(tensor): tensor for tensor in frozen})


def check_fidelity(turns: Sequence[Turn], samples: Sequence[Sample]) -> None:
    """Raise ``ContextError`` unless ``samples`` hold every turn of one episode once and unchanged.

    Unchanged means: same agent and policy, the training context is the generation context, the trained ids
    are the sampled ids, the log-probs are the sampler's and the reward is the turn's.
    """
    spans = [(span, sample) for sample in samples for span in sample.spans]
    by_step = {span.step: (span, sample) for span, sample in spans}
    held, sampled = sorted(span.step for span, _ in spans), sorted(turn.step for turn in turns)
    if held != sampled or len(by_step) != len(spans):
        raise ContextError(f"Sequences hold the steps {held}, sampled were {sampled}, each to be held once.")
    for turn in turns:
        span, sample = by_step[turn.step]
        cut = slice(span.start, span.end)
        same = {
            "policy": (sample.agent, sample.policy) == (turn.agent, turn.policy),
            "context": np.array_equal(sample.ids[: span.start], turn.context_ids),
            "action ids": np.array_equal(sample.ids[cut], turn.action_ids),
            "action mask": bool(sample.action_mask[cut].all()),
            "log-probs": np.array_equal(sample.logprobs[cut], np.asarray(turn.logprobs, np.float32)),
            "reward": span.valid == turn.valid and (not turn.valid or span.reward == turn.reward),
        }
        wrong = [what for what, equal in same.items() if not equal]
        if wrong:
            raise ContextError(
                f"Step {turn.step} of {turn.agent}: {' and '.join(wrong)} of the training sequence differ "
                "from what the engine consumed and sampled. Build sequences from the recorded ids only."
            )
