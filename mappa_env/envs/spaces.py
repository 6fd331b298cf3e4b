"""``Unicode``, the space of all texts, which contains actions and prompts."""

from __future__ import annotations

import string
from typing import Any, NoReturn

import numpy as np
from gymnasium.error import CustomSpaceError
from gymnasium.spaces import Dict, Discrete, Text
from gymnasium.spaces.utils import flatdim, flatten, flatten_space, unflatten
from gymnasium.vector.utils import create_shared_memory

from mappa_env.order import Order

MAX_CHARS = 2**31 - 1
_SAMPLE_CHARS = 64
_PRINTABLE = string.ascii_letters + string.digits + string.punctuation + " \n"


class Unicode(Text):
    """Any ``str`` of at most ``max_length`` characters, including the empty one.

    A subclass of ``Text``, so libraries treat it as text, but without a character set: all of Unicode would
    take seconds to build and tens of megabytes to pickle. Samples are short and printable.
    """

    def __init__(self, max_length: int = MAX_CHARS, *, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(max_length, min_length=0, charset=_PRINTABLE, seed=seed)

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a text of at most ``max_length`` characters."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """At most 64 printable characters; ``mask`` and ``probability`` as in ``Text``."""
        length = int(self.np_random.integers(min(self.max_length, _SAMPLE_CHARS) + 1))
        if mask is None and probability is None:
            return "".join(_PRINTABLE[i] for i in self.np_random.integers(len(_PRINTABLE), size=length))
        return str(super().sample(mask=_bounded(mask, length), probability=_bounded(probability, length)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unicode) and self.max_length == other.max_length

    def __repr__(self) -> str:
        return "Unicode()" if self.max_length == MAX_CHARS else f"Unicode({self.max_length})"

    @property
    def is_np_flattenable(self) -> bool:
        """False: text has no bounded numeric form."""
        return False


class TurnText(Unicode):
    """The actions of an agent that does not always act: any text, and None where it is not its turn.

    ``sample`` draws a text while ``acts`` is True, otherwise None, so a loop that samples for every agent
    plays legally.
    """

    def __init__(self, *, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(seed=seed)
        self.acts = False

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a text or None."""
        return x is None or super().contains(x)

    def sample(self, mask: Any = None, probability: Any = None) -> str | None:  # type: ignore[override]
        """A text as of ``Unicode`` while ``acts`` is True, otherwise None."""
        return super().sample(mask, probability) if self.acts else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TurnText)

    def __repr__(self) -> str:
        return "TurnText()"


def observation_space(order: Order) -> Dict:
    """The one observation space that all agents of a team share."""
    return team_space(len(order.team), order.most_turns)


def team_space(agents: int, most_turns: int) -> Dict:
    """That space for a team of ``agents``, each of which has at most ``most_turns`` turns."""
    return Dict({"prompt": Unicode(), "agent": Discrete(agents), "turn": Discrete(most_turns)})


def _bounded(mask: tuple[int | None, Any] | None, length: int) -> tuple[int | None, Any] | None:
    return (length, mask[1]) if mask is not None and mask[0] is None else mask


# Text has no bounded numeric form, so flattening leaves it unchanged, as it does gymnasium's Graph.
@flatdim.register(Unicode)
def _flatdim(space: Unicode) -> NoReturn:
    raise ValueError(f"{space} has no fixed size and cannot be flattened to numbers: tokenise the text.")


@flatten_space.register(Unicode)
def _flatten_space(space: Unicode) -> Unicode:
    return space


@flatten.register(Unicode)
def _flatten(space: Unicode, x: str) -> str:  # type: ignore[misc]
    return x


@unflatten.register(Unicode)
def _unflatten(space: Unicode, x: str) -> str:  # type: ignore[misc]
    return x


@create_shared_memory.register(Unicode)
def _create_shared_memory(space: Unicode, n: int = 1, ctx: Any = None) -> NoReturn:
    # Text in shared memory has a fixed size and character set, and can be stale.
    raise CustomSpaceError(f"{space} cannot use shared memory: use AsyncVectorEnv(shared_memory=False).")
