"""The policies of a team: weights, their tokenizer and the engine that samples from them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mappa_rl.crews.side_by_side import side_by_side
from mappa_rl.engines.base import Engine
from mappa_rl.errors import PolicyError
from mappa_rl.models.chat import ChatTokenizer
from mappa_rl.models.policy_map import PolicyMap

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from mappa_rl.engines.weights.base import SyncStats


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
        self.around_sync: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext()
        """A block, by the policy's name, in which the weights of a trainable policy are read."""
        self.crews: Mapping[str, int] = dict.fromkeys(policy_map.trainable, 0)
        """Trainable policy -> number of the crew that trains it; 0 is this process's own."""
        if set(self._members) != set(policy_map.names) or len(members) != len(self._members):
            raise PolicyError(
                f"The map needs the policies {sorted(policy_map.names)}, "
                f"found {sorted(member.name for member in members)}."
            )

    @classmethod
    def from_models(
        cls,
        policy_map: PolicyMap,
        models: Mapping[str, Any],
        chats: Mapping[str, ChatTokenizer],
        engines: Mapping[str, Engine],
    ) -> Policies:
        """The policies with these models, tokenizers and engines, by name."""
        return cls(
            policy_map, [Policy(name, model, chats[name], engines[name]) for name, model in models.items()]
        )

    def sync(self, version: int | None = None, *, everything: bool = False) -> dict[str, float]:
        """Give the engines the weights of the policies that are trained, and of all after ``wake``.

        ``everything``: of all in any case. The policies of one crew send one after another, and all crews at
        once. Returns ``sync/seconds``, wall time, ``sync/bytes`` and ``sync/transfers``, where anything had
        to be sent.
        """
        started = time.perf_counter()

        def send(name: str) -> SyncStats | None:
            policy = self._members[name]
            with self.around_sync(name) if name in self.map.trainable else nullcontext():
                policy.engine.load_weights(policy.model, version)
            return policy.engine.last_sync

        names = self.map.names if everything or self._slept else self.map.trainable
        sent = side_by_side({name: self.crews.get(name, 0) for name in names}, send)
        self._slept = False
        found = [stats for stats in sent.values() if stats is not None]
        if not found:
            return {}
        total = sum(found[1:], found[0])
        return {
            "sync/seconds": time.perf_counter() - started,
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
