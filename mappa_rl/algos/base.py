"""What an algorithm is, and how one is found by name: ours, a package's, or a class in a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from mappa_env import plugins
from mappa_env.errors import OptionError, nearest
from mappa_rl.errors import ConfigError
from mappa_rl.types import Floats, Sample, StepStats

GROUP = "mappa.algorithms"
"""Entry points under which installed packages offer algorithms."""
_METHODS: Mapping[str, tuple[int, tuple[str, ...]]] = {"credit": (2, ()), "state": (0, ()), "load": (1, ())}


@dataclass(frozen=True, slots=True, eq=False)
class Credit:
    """Per sample, in order: ``advantages`` [T] and ``weights`` [T] in the loss, 0 on tokens not trained on.

    ``stats`` maps a policy to its metrics. ``returns`` [T]: what a critic should have said.
    """

    advantages: list[Floats]
    weights: list[Floats]
    stats: dict[str, StepStats]
    returns: list[Floats] | None = None


class Algorithm:
    """Base of all algorithms: frozen dataclasses of settings with the method ``credit``.

    What an algorithm learns from step to step is its ``state``, which goes into checkpoints.
    """

    __slots__ = ()
    needs_groups: ClassVar[bool] = False
    """Whether it compares episodes of one task, so that there must be several (rollout.samples_per_task)."""

    @property
    def needs_reference(self) -> bool:
        """Whether ``credit`` wants the reference's log-probs."""
        return False

    def credit(self, samples: Sequence[Sample], reference: Sequence[Floats] | None = None) -> Credit:
        """Credit all samples of a training step: statistics are over the whole batch, per policy.

        ``samples`` come in the order of ``merge_turns``; ``reference`` holds one array [T] of log-probs of
        the frozen reference per sample.
        """
        raise NotImplementedError(f"{type(self).__name__} has to say what it credits: write credit().")

    def state(self) -> dict[str, Any]:
        """What a checkpoint has to keep, JSON-able."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Become the algorithm whose ``state`` this was."""


class CriticAlgorithm(Algorithm):
    """Base of algorithms with a critic: every policy gets a value head, which learns with this loss.

    ``credit`` gets the critic's ``values`` [T] of every sample before the update, and has to say ``returns``.
    """

    __slots__ = ()
    vf_coef: float
    value_clip: float

    def credit(
        self,
        samples: Sequence[Sample],
        reference: Sequence[Floats] | None = None,
        values: Sequence[Floats] | None = None,
    ) -> Credit:
        raise NotImplementedError(f"{type(self).__name__} has to say what it credits: write credit().")


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
    """Our own and those of installed packages."""
    return sorted({*_ALGORITHMS, *plugins.installed(GROUP)})


def find_algorithm(name: str) -> Any:
    """The class of a name, or of ``path/mine.py:Class``. Raises ``ConfigError``."""
    try:
        if ".py:" in name:
            found = plugins.from_file("algo.name", name)
        else:
            found = _ALGORITHMS.get(name) or plugins.from_package("algo.name", GROUP, name)
    except OptionError as error:
        raise ConfigError(str(error)) from error
    if found is None:
        known = algorithm_names()
        raise ConfigError(
            f"Unknown algorithm {name!r}; there are {known}, and 'path/mine.py:Class'.{nearest(name, known)}"
        )
    lacking = plugins.missing(found, {k: (n + 1, words) for k, (n, words) in _METHODS.items()})
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)) or lacking:
        raise ConfigError(
            f"algo.name={name!r} is no algorithm: derive a frozen dataclass from mappa_rl.algos.Algorithm "
            "and write credit(self, samples, reference=None)."
        )
    return found


def settings_of(cls: Any) -> list[str]:
    """The names of an algorithm's settings."""
    return [field.name for field in dataclasses.fields(cls) if field.init]


def make_algorithm(name: str, **settings: Any) -> Algorithm:
    """Build an algorithm by name. Raises ``ConfigError`` for unknown names, settings and values."""
    cls = find_algorithm(name)
    fields = settings_of(cls)
    for key in settings:
        if key not in fields:
            raise ConfigError(f"Algorithm {name!r} has no setting {key!r}.{nearest(key, fields)}")
    try:
        made: Algorithm = plugins.construct("algo.name", name, cls, **settings)
    except ConfigError:
        raise
    except ValueError as error:  # also what a class of the user's own has against a value
        raise ConfigError(f"algo.name={name!r}: {error}") from error
    return made
