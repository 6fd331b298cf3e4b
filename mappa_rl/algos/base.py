"""What an algorithm is, and the registry of their names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from mappa_env.errors import nearest
from mappa_rl.errors import ConfigError
from mappa_rl.types import Floats, Sample, StepStats


@dataclass(frozen=True, slots=True, eq=False)
class Credit:
    """Per sample, in order: ``advantages`` [T] and ``weights`` [T] in the loss, 0 on tokens not trained on.

    ``stats`` maps a policy to its metrics.
    """

    advantages: list[Floats]
    weights: list[Floats]
    stats: dict[str, StepStats]


class Algorithm(Protocol):
    """A frozen dataclass of settings with one method."""

    @property
    def needs_reference(self) -> bool:
        """Whether ``credit`` wants the reference's log-probs."""
        ...

    def credit(self, samples: Sequence[Sample], reference: Sequence[Floats] | None = None) -> Credit:
        """Credit all samples of a training step, of all policies: statistics are over the whole batch.

        ``samples`` come in the order of ``merge_turns``; ``reference`` holds one array [T] of log-probs of
        the frozen reference per sample.
        """
        ...


_A = TypeVar("_A", bound=type)
_ALGORITHMS: dict[str, Any] = {}


def register(name: str) -> Callable[[_A], _A]:
    """Class decorator: make a dataclass of settings known as algorithm ``name``."""

    def enter(cls: _A) -> _A:
        if name in _ALGORITHMS:
            raise ConfigError(f"Algorithm {name!r} is registered already; choose another name.")
        _ALGORITHMS[name] = cls
        return cls

    return enter


def algorithm_names() -> list[str]:
    return sorted(_ALGORITHMS)


def make_algorithm(name: str, **settings: Any) -> Algorithm:
    """Build an algorithm by name. Raises ``ConfigError`` for unknown names, settings and values."""
    if name not in _ALGORITHMS:
        known = algorithm_names()
        raise ConfigError(f"Unknown algorithm {name!r}; there are {known}.{nearest(name, known)}")
    cls = _ALGORITHMS[name]
    fields = [field.name for field in dataclasses.fields(cls)]
    for key in settings:
        if key not in fields:
            raise ConfigError(f"Algorithm {name!r} has no setting {key!r}.{nearest(key, fields)}")
    made: Algorithm = cls(**settings)
    return made
